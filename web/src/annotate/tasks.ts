// Texts of the tasks: question, answers and their keys.
import type { Box } from "../api";
import type { Notice } from "./work_queue";
import type { HistoryEntry, QualificationInfo, QualificationTest, QuestionInfo, Task } from "./schema";

export interface Choice {
  answer: string;
  key: string;
  label: string;
  box?: Box; // the one that is wrong
}

interface TaskText {
  name: string;
  question: (question: QuestionInfo) => string;
  hint: (question: QuestionInfo) => string;
  choices: (question: QuestionInfo) => Choice[];
}

// Isolated from the text around it, whatever its script; the page colours what is isolated.
const quoted = (text: string) => `“\u2068${text.replace(/[\u2066-\u2069]/g, "")}\u2069”`;
const phraseOf = ({ mentions }: QuestionInfo) => quoted(mentions[0]?.text ?? "");
const phrasesOf = ({ mentions }: QuestionInfo) =>
  new Intl.ListFormat("en").format(mentions.map(({ text }) => quoted(text)));

const PHRASE = "{phrase}";

export const TASK_TEXTS: Record<Task, TaskText> = {
  link: {
    name: "Same or not",
    question: (question) => `Do ${phrasesOf(question)} mean the same?`,
    hint: () => "The same person or thing in this photo, or exactly the same group.",
    choices: () => [
      { answer: "yes", key: "Y", label: "Yes, the same" },
      { answer: "no", key: "N", label: "No, not the same" },
    ],
  },
  verify: {
    name: "All the same",
    question: (question) => `Do ${phrasesOf(question)}${question.mentions.length > 2 ? " all" : ""} mean the same?`,
    hint: () => "A single one that does not fit makes it a no.",
    choices: () => [
      { answer: "yes", key: "Y", label: "Yes, all the same" },
      { answer: "no", key: "N", label: "No, not all" },
    ],
  },
  requirement: {
    name: "Box or not",
    question: (question) => `Can a box be drawn around ${phraseOf(question)}?`,
    hint: () => "One box is enough for a yes.",
    choices: () => [
      { answer: "box", key: "1", label: "Yes, a box can be drawn" },
      { answer: "scene", key: "2", label: "It is the scene or the place" },
      { answer: "no box", key: "3", label: "No box can be drawn" },
    ],
  },
  drawing: {
    name: "Draw",
    question: (question) => `Draw ${question.boxes.length ? "one more" : "one"} box around ${phraseOf(question)}`,
    hint: (question) =>
      question.boxes.length
        ? "Around one that has no box yet, as tight as you can."
        : "As tight as you can. Where there are several, begin with any one.",
    choices: (question) => [
      { answer: "drawn", key: "Enter", label: "Send this box" },
      {
        answer: "no more",
        key: "N",
        label: question.boxes.length ? "No more boxes are needed" : "No box can be drawn",
      },
    ],
  },
  quality: {
    name: "Good or bad",
    question: (question) => `Is this box good for ${phraseOf(question)}?`,
    hint: (question) =>
      question.boxes.length
        ? "Tight, around all of it, and not around what has a box already (dashed)."
        : "Tight, and around all of it.",
    choices: () => [
      { answer: "good", key: "Y", label: "Yes, it is good" },
      { answer: "bad", key: "N", label: "No, it is bad" },
      { answer: "adjusted", key: "A", label: "Adjust this box" },
    ],
  },
  coverage: {
    name: "All there",
    question: (question) => `Are all boxes for ${phraseOf(question)} drawn?`,
    hint: () => "Each one that can be told apart has a box of its own.",
    choices: ({ boxes }) => [
      { answer: "all", key: "Y", label: "Yes, all are there" },
      { answer: "more", key: "N", label: "No, one is missing" },
      { answer: "wrong box", key: "W", label: boxes.length > 1 ? "A box is wrong" : "This box is wrong" },
    ],
  },
  group: {
    name: "Sort into groups",
    question: () => "Which of these phrases mean the same?",
    hint: () => "Phrases of one caption are never the same. The figures are the numbers of the captions.",
    choices: () => [{ answer: "grouped", key: "Enter", label: "Send these groups" }],
  },
  pair: {
    name: "Right or wrong",
    question: (question) => `Does this region show ${phraseOf(question)}?`,
    hint: () => "It need not be tight, but what it shows has to be right.",
    choices: () => [
      { answer: "right", key: "Y", label: "Yes, it is right" },
      { answer: "wrong", key: "N", label: "No, it is wrong" },
    ],
  },
  own: {
    name: "Own question",
    question: (question) => {
      const text = question.own?.text ?? "";
      if (!question.mentions.length) return text;
      return text.includes(PHRASE) ? text.replaceAll(PHRASE, phraseOf(question)) : `${phraseOf(question)}: ${text}`;
    },
    hint: ({ own, answers }) =>
      [own?.hint, own?.is_rating && `1 is the lowest, ${answers.length} the highest.`].filter(Boolean).join(" "),
    choices: ({ answers }) =>
      answers.length
        ? answers.map((answer, place) => ({ answer, key: `${place + 1}`, label: answer }))
        : [{ answer: "", key: "Enter", label: "Send this answer" }],
  },
};

/** Whether people write the answer. */
export const isWritten = ({ own, answers }: QuestionInfo) => own !== null && !answers.length;

/** Answers that need one more step: the box as it should be, or which box is wrong. */
export type Step = "adjusted" | "wrong box";

export const CANCEL = "cancel";

export function stepChoices(step: Step, { boxes }: QuestionInfo): Choice[] {
  const cancel = { answer: CANCEL, key: "Esc", label: "Back" };
  if (step === "adjusted") return [{ answer: "adjusted", key: "Enter", label: "Send the adjusted box" }, cancel];
  return [
    ...boxes.map((box, place) => ({
      answer: "wrong box",
      key: `${place + 1}`,
      label: `Box ${place + 1} is wrong`,
      box,
    })),
    cancel,
  ];
}

/** The words of an answer, for examples and votes. */
const LABELS: Record<string, string> = {
  yes: "Yes",
  no: "No",
  box: "Box",
  scene: "Scene or place",
  "no box": "No box",
  drawn: "Drawn",
  "no more": "Nothing to draw",
  good: "Good",
  bad: "Bad",
  adjusted: "Adjusted",
  all: "All there",
  more: "One is missing",
  grouped: "Groups",
  right: "Right",
  wrong: "Wrong",
  "wrong box": "A box is wrong",
};

/** The words of an answer to a task; those to the lead's own question are as they were written. */
export const answerLabel = (task: string, answer: string) => (task === "own" ? answer : (LABELS[answer] ?? answer));

const STAGES: Record<string, string> = {
  "ready for boxes": "boxes next",
  "in a chain": "linked",
  "not visual": "no box",
};

/** A judgement of the history, in the words of the pages. */
export function describeJudgement(said: string): string {
  const [task = "", ...rest] = said.split(": ");
  const answer = rest.length ? rest.join(": ") : undefined;
  const names: Record<string, string> = {
    review: "Decision",
    correction: "Correction",
    "proposed links": "Links proposed",
    "proposed boxes": "Boxes proposed",
  };
  const name = task in TASK_TEXTS ? TASK_TEXTS[task as Task].name : (names[task] ?? said);
  return answer === undefined ? name : `${name}: ${answerLabel(task, answer)}`;
}

/** Who made a judgement: models have no names here. */
export function describeWho({ who, said }: HistoryEntry): string {
  if (!said.startsWith("proposed ")) return who;
  return who.startsWith("imported ") ? "Imported data" : "Model";
}

/** Where a judgement led, in the words of the pages. */
export function describeStage(ledTo: string): string {
  if (ledTo.startsWith("start a chain")) return "apart"; // "linked" would be the contrary of the answer
  const stage = ledTo.split("; ").at(-1)!.replace(/^to /, "");
  return stage in TASK_TEXTS ? TASK_TEXTS[stage as Task].name : (STAGES[stage] ?? stage);
}

/** Where somebody stands in a test: attempts and mistakes are counted openly. */
export function describeTest({ done, of, wrong, allowed, attempt, attempts }: QualificationTest, isAsked = true): string {
  const place = isAsked ? `${Math.min(done + 1, of)} of ${of}` : `${done} of ${of} done`;
  return `${place} · ${wrong} wrong, ${allowed} allowed · attempt ${attempt} of ${attempts}`;
}

/** What a change of levels says to the one who has them; bad news is neither green nor after good news. */
export function describeLevelChanges(changes: readonly LevelChange[]): Notice | null {
  const lines = changes.map(describeLevelChange).filter(Boolean);
  const isBad = ({ is }: LevelChange) => ["failed the test", "suspended"].includes(is.level);
  const bad = changes.filter(isBad).map(describeLevelChange).filter(Boolean);
  if (!lines.length) return null;
  const kind = bad.length ? "trouble" : lines.every((line) => line.includes("Thank you")) ? "good" : "plain";
  return { line: [...bad, ...lines.filter((line) => !bad.includes(line))].join(" "), kind };
}

interface LevelChange {
  was: QualificationInfo | undefined;
  is: QualificationInfo;
}

function describeLevelChange({ was, is }: LevelChange): string {
  const { task } = is;
  const name = `“${TASK_TEXTS[task].name}”`;
  const [before, now] = [was?.level, is.level];
  if (was?.test && is.test && is.test.attempt > was.test.attempt)
    return `Too many answers of the test of ${name} were wrong, so it begins again: attempt ${is.test.attempt} of ${is.test.attempts}.`;
  if (!before || before === now) return "";
  if (now === "failed the test")
    return `The test of ${name} did not go well enough, so it is closed to you. The other tasks stay open.`;
  if (now === "suspended") return `You get no more questions of ${name}: too many answers were not as expected.`;
  if (before === "in the test")
    return `You have passed the test of ${name}. Thank you! From now on your answers count.`;
  if (now === "trusted") return `Your first items of ${name} were good. Thank you!`;
  return "";
}
