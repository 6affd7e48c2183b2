r"""Penn Treebank tokenizer. Each token keeps its offsets in the sentence.

`tokenize` splits a sentence without changing it: each token is a slice of the sentence. `words` returns what caption
scores count: lower-case tokens without punctuation, spelled as the Java tokenizer of the COCO caption evaluation
does (Stanford CoreNLP 3.4.1, ``PTBTokenizer -preserveLines -lowerCase``, minus the punctuation that pycocoevalcap
removes). The rules, of which the first match wins:

- Clitics are split off (``man|'s``, ``do|n't``, ``they|'re``), and so are contractions of two words (``can|not``,
  ``gon|na``). ``o'clock``, ``O'Brien``, ``ma'am`` and ``Hawai'i`` are not split.
- Hyphens, slashes, underscores and full stops inside a word are part of it (``T-shirt``, ``and/or``, ``foo.jpg``).
  At the edge of a word they are separate tokens, and so are dashes.
- A full stop is part of an abbreviation (``Mr.``, ``U.S.``, ``No. 5``) and otherwise a separate token. After a single
  letter it is separate at the end of the sentence or before a word that starts sentences (``plan B|. The``).
- Numbers include commas, points, colons and signs (``1,000``, ``5:30``, ``-20``, ``3/4``). ``%``, ``$`` and ``#``
  before a digit are separate tokens.
- URLs, e-mail addresses, ``@names``, ``#tags``, simple XML tags, common smileys and runs of emoji are one token each.
- White space and invisible characters (control and zero-width characters, byte order marks) are in no token. Every
  other character is in exactly one token.

Differences from Stanford's tokenizer: No token contains white space (Stanford joins ``2 1/2``, phone numbers and
``. . .``, and keeps spaces inside XML tags; `words` returns the parts). Captions are independent (Stanford also looks
at the first word of the next line). No full stop is added after an abbreviation at the end of a sentence. Characters
that Stanford deletes (emoji, rare symbols) are in `tokenize` and missing from `words` only. These quirks are not
copied: adjacent quotes form one word (``“‘``), ``'employees'`` is split after ``'em``, and text after an address
(``a@b.org,``) is part of it.

The rules were derived from the output of the Java program; none of its code is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple, Protocol

__all__ = ["TOKENIZER_VERSION", "Token", "tokenize", "words"]

TOKENIZER_VERSION: int = 1
"""Stored in data set manifests. Incremented whenever the results of `tokenize` or `words` change."""


class Token(NamedTuple):
    """A token and its offsets: ``sentence[token.start:token.end] == token.text``."""

    text: str
    start: int
    end: int


# Letters and marks of the Basic Multilingual Plane. `\w` does not fit: it contains ² and ½, which are separate tokens,
# and lacks combining marks. The soft hyphen is included because it must not split a word.
_LETTERS = (
    "A-Za-zªµº\xadÀ-ÖØ-öø-\u037d\u037f-\u0386\u0388-\u0588\u058b-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7-\u05f2"
    "\u0610-\u061a\u0620-\u0669\u066e-\u06d3\u06d5-\u06ff\u0710-\u0963\u0966-\u1360\u1369-\u166c\u166f-\u167f"
    "\u1681-\u16ea\u16ee-\u17d3\u17dc-\u17ff\u180f-\u1fff\u2c00-\u2dff\u3005-\u3007\u3021-\u302f\u3031-\u3035"
    "\u3040-\u30fa\u30fc-\ud7ff\uf900-\ufdff\ufe70-\ufefe\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc"
)
_INVISIBLE = (
    "\x00-\x1f\x7f\x81-\x84\x86-\x90\x95\x98-\x9f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
_EMOJI = "\U00010000-\U0010ffff"

_L = f"[{_LETTERS}]"
_W = f"[0-9{_LETTERS}]"
_APOSTROPHE = "(?:['’]|&apos;)"
_HYPHEN = "[-\u058a\u2010\u2011]"
_ENDS = f"(?!{_L})"


def _any_of(listed: str) -> str:
    """Return a case-insensitive pattern that matches any word of a space-separated list."""
    return f"(?i:{'|'.join(listed.split())})"


_ABBREVIATION = _any_of(
    """
    adj adm adv al ala alex apr ariz assn assoc asst atty attys aug ave bancorp bhd bldg blvd brig bros
    calif capt cf cie cmdr co col colo comdr conn corp cos cpl ct dak dec dept det dr drs elec ens esq est
    etc ext feb fla fri ft ga gen gov govs hon inc ind insp intl invt jan jos jr jul jun kan kans ky lieut
    lt ltd maj mar md messrs mfg mich minn mlle mme mo mon mont mr mrs ms msgr mt mtg natl neb nev nov oct
    okla penn pfc ph plc pres prof profs pte pty pvt rd rep reps rev rt sen sens sep sept seq sfc sgt spc
    sq sr st ste supt sys tel tenn thu thurs treas tue tues univ va vs vt wed wis wisc wm wyo
    """
)
# In lower case these are ordinary words.
_CAPITAL_ABBREVIATION = "(?=[A-Z])" + _any_of("ark az del ill la mass miss ore pa tex wash")
_ABBREVIATION_BEFORE_NUMBER = _any_of("art ca fig figs no nos op pp prop")
_SENTENCE_STARTER = "(?=[A-Z])" + _any_of(
    """
    a about according additionally after an as at but earlier he her here however if in it last many more now
    once one other our she since so some such that the their then there these they this we what when while yet
    you
    """
)

_HYPHENED = f"{_W}+(?:(?:{_HYPHEN}|_){_W}+)*"
_SLASH_PART = f"{_W}+(?:{_HYPHEN}{_L}{_W}*)*"
_ACRONYM = rf"{_L}(?:\.{_L})+\."
_NOT = rf"(?i:n(?:{_APOSTROPHE}|`)t){_ENDS}"
_VERB_OR_GENITIVE = f"(?i:s|d|m|ll|re|ve){_ENDS}"
_WHOLE = f"(?!(?:{_HYPHEN}|{_APOSTROPHE}|/)?{_W})"
_URL_REST = r"[^\s\"<>|()]+[^\s\"<>|().,;:?!'’-]"

_RULES = (
    # Fast path: most words of most captions.
    r"(?![CGLWcglw](?i:annot|onna|otta|anna|imme|emme)\b)[A-Za-z]+(?:-[A-Za-z]+)*(?![^\s,;)])",
    r"[.,](?!\S)",
    # Addresses (foo.com/photos, me@foo.com), @names and #tags.
    rf"(?i:https?://){_URL_REST}",
    rf"(?i:www\.[\w.-]+\.[a-z]{{2,4}}|[a-z]\w*(?:\.[a-z]\w*)*\.(?:com|net|org|edu)(?=/))(?:/{_URL_REST})?",
    r"[0-9A-Za-z][\w.+-]{0,63}@[0-9A-Za-z]+(?:[.-][0-9A-Za-z]+)*",
    r"@[A-Za-z_]\w*|\#[A-Za-z]+",
    # XML tags and entities, smileys, brackets as the Treebank writes them (-LRB-).
    r"</?[A-Za-z][^\s<>]*>|&(?:amp|lt|gt|quot|nbsp|[mn]dash|\#[0-9]+);",
    rf"[<>]?[:;=][-o']?[()DdPpO|\\@{{\[\]](?!{_W})|\^_\^|-_-",
    r"-[LR][RCS]B-",
    # Signs inside names and currencies: AT&T, US$, C#.
    r"[A-Z]+(?:&(?:amp;)?[A-Z]+)+|[A-Z]{1,3}\$|[CF]\#",
    # Two words written as one (can|not, 't|is); the second word is the next match.
    rf"(?i:can(?=not{_WHOLE})|(?:gon|wan)(?=na{_WHOLE})|got(?=ta{_WHOLE})|(?:gim|lem)(?=me{_WHOLE}))",
    rf"'[Tt](?=(?i:is{_ENDS}|was))",
    # Full stops that are part of a token: U.S.-led, Ph.D., Mr., No. 5, J. Smith.
    rf"(?:{_W}+{_HYPHEN})*{_ACRONYM}(?:{_HYPHEN}(?:{_ACRONYM}|{_W}+))*{_ENDS}",
    rf"{_L}{_W}*\.(?:{_HYPHEN}{_W}+)+|(?i:ph\.d\.|ed\.d\.)(?:{_HYPHEN}{_W}+)*",
    rf"(?:{_ABBREVIATION}|{_CAPITAL_ABBREVIATION})\.{_ENDS}|{_ABBREVIATION_BEFORE_NUMBER}\.(?=\s*[0-9])",
    rf"{_L}\.(?!\s*$|\s+{_SENTENCE_STARTER}(?!{_W})|{_L})|{_W}+\.(?=[,;:])",
    # Words with an apostrophe inside: O'Neill-Jones, ma'am, li'l.
    rf"[A-HJ-XZdlno]{_APOSTROPHE}{_L}{{2,}}(?:{_HYPHEN}{_W}+)*",
    rf"{_L}+[AEIOUYaeiouy]{_APOSTROPHE}[AEIOUaeiou]{_L}*",
    rf"(?i:(?:cap{_APOSTROPHE}n|(?:li|nat){_APOSTROPHE}l|e{_APOSTROPHE}er|c{_APOSTROPHE}est|s{_APOSTROPHE}mores)){_ENDS}",
    # Words split at an apostrophe, and the part after it: do|n't, y'|all, dog|'s, rock|'n'|roll, '90s.
    rf"{_HYPHENED}?(?={_NOT})|{_NOT}",
    rf"(?i:[djly]|ol|dunkin){_APOSTROPHE}(?!{_VERB_OR_GENITIVE})",
    rf"{_APOSTROPHE}(?:{_VERB_OR_GENITIVE}|(?i:n){_APOSTROPHE}|(?i:em|n|till?|cause){_ENDS})",
    rf"{_APOSTROPHE}[0-9]{{2}}(?:s{_ENDS}|(?!\S))",
    # Numbers: 3.5-inch, 1,000, 5:30, -20, 2-1/2. A fraction after a number (2 1/2-inch) does not include the unit.
    rf"[-+]?[0-9]*(?:[.,][0-9]+)+(?:{_HYPHEN}{_W}+)+|[-+]?[0-9]*(?:[.,:][0-9]+)+|[-+][0-9]+",
    r"[0-9]+-[0-9]+[/⁄][0-9]+|[0-9]+⁄[0-9]+",
    r"(?:(?<=(?<!\S)[0-9]\s)|(?<=(?<!\S)[0-9]{2}\s))[0-9]+\\?/[0-9]+",
    # Words: and/or, foo.jpg, Yahoo!s, T-shirt.
    rf"{_SLASH_PART}(?:\\?/{_SLASH_PART}){{1,2}}",
    rf"{_L}{_W}*(?:\.{_L}{_W}*)+(?:{_HYPHEN}{_W}+)*",
    rf"{_L}+(?:[!?]{_L}+)+",
    _HYPHENED,
    # Punctuation and symbols.
    r"\.{3,}|[!?]+|-{2,}|\*+|_+|\#+|''|``|<<|>>|&apos;",
    rf"[{_EMOJI}][{_EMOJI}\u200d\ufe0f]*",
    rf"[^\s{_INVISIBLE}]",
)


@cache
def _token_pattern(is_ascii: bool) -> re.Pattern[str]:
    """The rules, for all texts or for those in ASCII, for which they are compiled in 6 ms instead of 100."""
    pattern = rf"(?=\S)(?:{'|'.join(_RULES)})"
    if is_ascii:
        pattern = pattern.replace(_LETTERS, "A-Za-z").replace(_INVISIBLE, r"\x00-\x1f\x7f")
    return re.compile(pattern)


def tokenize(sentence: str) -> list[Token]:
    """Split a sentence into Penn Treebank tokens with their offsets in code points.

    Parameters
    ----------
    sentence : str
        Any string. A caption that is already tokenized with spaces gives the same tokens.

    Returns
    -------
    list of Token
        In the order of the sentence, without overlaps.

    Examples
    --------
    >>> [token.text for token in tokenize("A dog, a cat and a man's T-shirt.")]
    ['A', 'dog', ',', 'a', 'cat', 'and', 'a', 'man', "'s", 'T-shirt', '.']
    >>> tokenize("A dog.")[1]
    Token(text='dog', start=2, end=5)
    """
    matches = _token_pattern(sentence.isascii()).finditer(sentence)
    return [Token(match[0], match.start(), match.end()) for match in matches]


# The punctuation that pycocoevalcap removes, and all characters that the Java program normalizes to it. Brackets stay:
# pycocoevalcap removes "-LRB-", but the Java program has lower-cased it before.
_PUNCTUATION = frozenset(
    ["''", "``", "--", "---", "----", "&quot;", "&apos;", "&nbsp;", "&mdash;", "&ndash;"]
) | frozenset("'`.?!,:;-\"‘’‛“”«»‹›–—―…‐‑֊\x91\x92\x93\x94\x96\x97")
_SPELLINGS = {
    "(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-",
    "¢": "cents", "£": "#", "€": "$", "¤": "$", "₠": "$", "\x80": "$",
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3",
    "&amp;": "&", "&lt;": "<", "&gt;": ">",
    "’s": "'s", "’d": "'d", "’m": "'m", "’ll": "'ll", "’re": "'re", "’ve": "'ve", "n’t": "n't",
}  # fmt: skip
# The Java program deletes all other characters.
_DELETED = (
    rf"[^0-9{_LETTERS}\x21-\x7e¡-¿×÷\u2013-\u2023\u2030-\u203b\u203e-\u2042⁄\u2070-\u208e₠₤€\u2100-\u214f"
    r"\u2153-\u215e\u2190-\u2bff、。〒・\uff01-\uff65￠￡‐‑]"
)


def words(sentence: str | Iterable[Token]) -> list[str]:
    """Return the words that caption scores count: lower case, no punctuation, spelled as in COCO's evaluation.

    Parameters
    ----------
    sentence : str or iterable of Token
        A string, or tokens of one, which are not split again.

    Returns
    -------
    list of str
        Non-empty words without white space.

    Examples
    --------
    >>> words("He can't hold it (the T-shirt).")
    ['he', 'ca', "n't", 'hold', 'it', '-lrb-', 'the', 't-shirt', '-rrb-']
    >>> words(tokenize("A man reads J. Smith.")[2:])
    ['reads', 'j.', 'smith']
    """
    if isinstance(sentence, str):
        texts = _token_pattern(sentence.isascii()).findall(sentence)
    else:
        texts = [token.text for token in sentence]
    lowered = [text.lower() for text in texts]
    spelled = (token if token.isascii() and token.isalnum() else _normalize(token) for token in lowered)
    return [word for word in spelled if word]


def _normalize(token: str) -> str:
    """Return the spelling that scores count; empty for punctuation."""
    if token in _PUNCTUATION or token.startswith("..."):
        return ""
    if token in _SPELLINGS:
        return _SPELLINGS[token]
    if token.startswith((":", ";", "=", "<", ">")):
        return token.replace("(", "-lrb-").replace(")", "-rrb-")
    if not token.isascii():
        token = re.sub(_DELETED, "", token.replace("\xad", ""))  # compiled once, when it is first needed
    return token.replace("&amp;", "&").replace("&apos;", "'")


class HasWords(Protocol):
    """A record with words: `Sentence`, `Phrase` or `Relation`."""

    @property
    def words(self) -> Sequence[str]:
        """As the function `words` returns them."""
        ...


Text = str | Sequence[str] | HasWords
"""A string, which is tokenized; or a list of words; or a record with words."""


def words_of(text: Text) -> list[str]:
    if isinstance(text, str):
        return words(text)
    return list(text if isinstance(text, Sequence) else text.words)


_ARTICLES = ("a", "an", "the")


def distinct_phrase(phrase: str) -> str:
    """Normalize a phrase: lower case, single spaces, no leading *a*, *an* or *the*.

    As in Table 5 of the Entities paper, which lists "man" and "two men".
    """
    words = phrase.lower().split()
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)
