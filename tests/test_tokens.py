"""The tokenizer by example, by property, and against the Java program of the caption evaluation."""

from __future__ import annotations

import importlib.util
import shutil
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deixis.language.sentence import Sentence
from deixis.tokens import Token, _token_pattern, tokenize, words, words_of

# Each bar is a cut that is not at a space.
CUTS = """
A dog|, a cat and a man|'s hat|.
He ca|n't|, wo|n't and does|n't|.
I|'m sure they|'re what we|'ve got|, he|'ll say she|'d go
I would|n't|'ve
the dogs|' toys and James|'s ball
can|not Can|not|. gon|na got|ta wan|na gim|me lem|me
't|is 't|was
gonna-be whatcha cants
y'|all ol'| dog
O'Brien o'clock ma'am Hawai'i l'Oreal O'Neill-Jones cap'n s'mores
ab|'|cd po|'|boy
rock 'n' roll rock|'n'|roll get|'em 'til
the '90s 90|'s and '68 now
T-shirt 3-year-old mother-in-law bird|'s|-|eye
-|foo foo|- foo|--|bar a|–|b a|—|b
he/she black/white/red w|/ w/o 24/7 9/11/2001
Mr. Smith of St. Louis met Dr. No|.
the U.S. flag|, U.S.-led and non-U.S.|, in Washington|, D.C.
a Ph.D. from Acme Inc.|, etc.
Calif.-based Mass. and mass|.
No. 5 is no|. Five
J. R. Smith|, plan B|. The end
plan B|.
he eats vitamin C|.
10 a.m. to 5 p.m.
wait|... wait|.|. wait|.... no|…
really|?! wow|!!! no|!
hello.world foo.jpg yahoo!s -LRB- a -RRB-
1,000 people|, 3.5 miles|, 5:30|, 10:30|am|, 10am|, -20|, +5|, .5
3.5-inch 1/2-inch 2-1/2 2 1/2|-|inch 1990-2000
50|% $|5.00 US$|5 £|5 20|°|C 1|½
#|5 #tag @home C# AT&T R&B r|&|b A&W
(|a|) [|b|] {|c|} "|d|" '|e|' “|f|” ‘|g|’ ``|h|''
http://foo.com/a?b=c|. www.foo-bar.com|, foo.com/photos|, me@foo.co.uk|.
:) ;-) :D =( see|:|Dogs
<b>|bold|</b> a|<|5
a|*|b ** _|x|_ a_b ~|5 a|=|b a|\\|b x|²
café Zoë naïve Привет 日本語 हिन्दी
so|😀|good 👨‍👩‍👧 ♥|♥
do|n’t it|’s O’Brien ’em
a‐b a\xadb
"""


def texts(sentence: str) -> list[str]:
    return [token.text for token in tokenize(sentence)]


@pytest.mark.parametrize("line", CUTS.strip().splitlines())
def test_a_sentence_is_split_as_in_the_treebank(line: str) -> None:
    assert texts(line.replace("|", "")) == line.replace("|", " ").split()


SPELLINGS = {
    "": "",
    " \t\n": "",
    "A dog, a cat.": "a dog a cat",
    "He can't hold the dogs' toys.": "he ca n't hold the dogs toys",
    "It’s O’Brien": "it 's o’brien",
    "I’d I’m I’ll we’re we’ve don’t": "i 'd i 'm i 'll we 're we 've do n't",
    '"Stop" (now) [here] {there}': "stop -lrb- now -rrb- -lsb- here -rsb- -lcb- there -rcb-",
    "“Stop” ‘now’ – a — b … c -- d --- e ...f ....": "stop now a b c d e f",
    "¼ ½ ¾ ⅓ ⅔ ⅛": "1/4 1/2 3/4 1/3 2/3 ⅛",
    "¤ ₠ \x80 ¥": "$ $ $ ¥",
    "& &amp; &gt; &lt; &mdash; &nbsp;": "& & > <",
    "½ cup, 5¢, £5, €5, $5, 50%": "1/2 cup 5 cents # 5 $ 5 $ 5 50 %",
    "R&amp;B &lt;3 &quot;x&quot; man&apos;s": "r&b < 3 x man 's",
    "what?! no!! ** a": "what ?! no !! ** a",
    ":) and :(": ":-rrb- and :-lrb-",
    "an emoji 😀 and a heart ♥": "an emoji and a heart ♥",
    "soft\xadhyphen zero\u200bwidth \ufeffmark": "softhyphen zero width mark",
    "the U.S. at 5 p.m.": "the u.s. at 5 p.m.",
    "plan B.": "plan b",
}


@pytest.mark.parametrize(("sentence", "expected"), SPELLINGS.items())
def test_words_are_spelled_as_in_the_caption_evaluation(sentence: str, expected: str) -> None:
    assert words(sentence) == expected.split()


def test_offsets_count_code_points_past_wide_and_invisible_characters() -> None:
    sentence = "\ufeff😀\u200b A\xa0cafe\u0301,\x00 a\u2003dog’s\r\n"
    assert tokenize(sentence) == [
        Token("😀", 1, 2),
        Token("A", 4, 5),
        Token("cafe\u0301", 6, 11),
        Token(",", 11, 12),
        Token("a", 14, 15),
        Token("dog", 16, 19),
        Token("’s", 19, 21),
    ]


TRICKY = st.text(alphabet="aAbBnNtTsS15 .,:;-'’`\"“&@#/\\_!?()<>=%$½😀é\u0301\xad\u200d\ufe0f\xa0\n", max_size=30)
ANYTHING = st.text() | TRICKY | st.text(alphabet=st.characters(), max_size=20)


def may_be_left_out(character: str) -> bool:
    """White space and what nobody can see."""
    return (
        character.isspace()
        or unicodedata.category(character) in {"Cc", "Cf"}
        or "VARIATION SELECTOR" in unicodedata.name(character, "")
    )


@given(ANYTHING)
@example("\ud800 lone surrogate")
@example("a\u2028b\x85c\x1cd")
def test_tokens_are_ordered_slices_and_skip_invisible_characters_only(sentence: str) -> None:
    place = 0
    for token in tokenize(sentence):
        assert token.text == sentence[token.start : token.end]
        assert token.text
        assert not any(character.isspace() for character in token.text)
        assert all(may_be_left_out(character) for character in sentence[place : token.start])
        place = token.end
    assert all(may_be_left_out(character) for character in sentence[place:])


@given(ANYTHING)
@example("A man reads J. Smith.")
def test_words_of_tokens_are_the_words_of_the_sentence(sentence: str) -> None:
    assert words(tokenize(sentence)) == words(sentence)


@given(ANYTHING)
def test_words_are_lower_case_and_without_white_space(sentence: str) -> None:
    for word in words(sentence):
        assert word == word.lower()
        assert len(word.split()) == 1


ASCII = st.text(st.characters(codec="ascii"), max_size=20) | TRICKY.filter(str.isascii)
EXAMPLES = [line.replace("|", "") for line in CUTS.split("\n") if line.isascii()]


@given(ASCII | st.tuples(ASCII, st.sampled_from(EXAMPLES), ASCII).map("".join))
def test_the_rules_for_ascii_are_those_for_all_texts(text: str) -> None:
    assert _token_pattern(True).findall(text) == _token_pattern(False).findall(text)


CAPTION_TOKENS = """
A a The two dog dogs man 's ' n't do ca not gon na , . ; : ! ? ... -- - " `` '' ( ) T-shirt 3-year-old 10 1,000
5:30 3.5 % $ # U.S. Mr. St. p.m. O'Brien o'clock and/or AT&T 're 'll 've 'd 'm café ’s “ ” – 😀
"""


@given(st.lists(st.sampled_from(CAPTION_TOKENS.split()), max_size=15))
def test_a_tokenized_caption_gives_the_same_tokens(tokens: list[str]) -> None:
    assert texts(" ".join(tokens)) == tokens


@given(st.lists(st.from_regex(r"[a-z]{2}[a-z]*ing", fullmatch=True), min_size=1), st.sampled_from('.,;:!?)"”'))
def test_punctuation_is_split_off_words(plain: list[str], mark: str) -> None:
    assert texts(" ".join(word + mark for word in plain)) == [part for word in plain for part in (word, mark)]


@pytest.mark.parametrize("unit", ["a", "a-", "a.", "a+", "a'", "A&", "1,", "a@", "<a", "A.B.-", " \u200b", "no. "])
@pytest.mark.parametrize("end", ["", "@"])
def test_a_long_hostile_string_takes_time_in_proportion(unit: str, end: str) -> None:
    began = time.process_time()
    tokenize(unit * (20_000 // len(unit)) + end)
    assert time.process_time() - began < 2


MORE_SENTENCES = """
A jack-o'-lantern on a porch of Main St.
She crosses 5th Ave. with Mrs. Jones, Jr. and Prof. Lee.
Apples, pears, etc. are sold here, e.g. red ones, i.e. ripe ones.
He lives on Main St.
They live in the U.S.
The end.The start.
About 10-12 players, a 2-1/2 one and a 2 1/2-inch one.
It is 20°C or 72°F; a x² and m³ and 5×7; a™ b® ©2010.
AT&T, R&B, r&b, A&W, M&Ms, Q&A, Rock&roll and Johnson&Johnson.
C# and F# are languages.
He’s 6'2" tall, 5 ft. wide.
A ~5 and a=b and a+b and 1+1.
A back\\slash and a |pipe|.
Zero\u200bwidth, soft\xadhyphen, no\xa0break.
A man,a dog,a cat.
A dog., a cat.
He said, "I can't."
He said 'I won't.'
(He can.)
A b. c. d.
A 14th, 21st and 2nd place.
MP3, 3D, 4x4, 100m, 5km, an F-16 and A-1 jet.
A Jan. 5 party, Sept. too.
A Lt. Col. and Sgt. Pepper vs. Gov. Brown.
An un-American, self-made man's.
The Smiths' and Joneses' houses.
A man who's who'd who'll.
Isn't it? Ain't it? Shan't we?
Dunkin' donuts and goin' out.
Ten-year-olds' games.
A 100%-cotton shirt and a $5-$10 meal.
Nat'l and int'l.
A 5'x7' rug.
A "red," a "blue".
The 1800s' end.
A semi-colon; a colon: done.
AN UPPER CASE CAPTION'S END.
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="needs java to run Stanford's tokenizer")
@pytest.mark.skipif(importlib.util.find_spec("pycocoevalcap") is None, reason="needs pycocoevalcap")
def test_words_agree_with_the_java_tokenizer_of_the_caption_evaluation() -> None:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    sentences = [line.replace("|", "") for line in CUTS.strip().splitlines()] + MORE_SENTENCES.strip().splitlines()
    sentences += filter(str.strip, SPELLINGS)
    # Java peeks at the next line's first word, so each sentence is followed by one that starts as captions do.
    captions = {number: [{"caption": sentence}, {"caption": "A dog ."}] for number, sentence in enumerate(sentences)}
    scored = PTBTokenizer().tokenize(captions)
    ours = {sentence: words(sentence) for sentence in sentences}
    assert ours == {sentence: scored[number][0].split() for number, sentence in enumerate(sentences)}


def test_records_with_words_equal_their_text() -> None:
    sentence = Sentence("A dog chases a cat.")
    phrase, relation = sentence.phrases[1], sentence.relations()[-1]
    assert [words_of(text) for text in (sentence, phrase, relation)] == [
        words_of(text) for text in ("A dog chases a cat.", "a cat", "A dog chases a cat")
    ]
