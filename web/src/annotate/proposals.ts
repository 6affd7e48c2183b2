// Proposals of models, which are always marked as such.
import type { Box } from "../api";
import type { QuestionInfo } from "./schema";
import type { StyledBox } from "./overlay";

/** What a model, or the imported data, proposes for a question. */
interface Proposal {
  model?: string;
  box?: Box;
  boxes?: Box[];
  probability?: number;
}

const proposalOf = (question: QuestionInfo) => question.proposal as Proposal | null;

export function proposedBoxes(question: QuestionInfo): Box[] {
  const { task } = question;
  const proposal = proposalOf(question);
  if (task !== "drawing" || !proposal) return [];
  return proposal.boxes ?? (proposal.box ? [proposal.box] : []);
}

/** The label of a box that no person drew; empty for people's. */
export const modelTag = (model: string | null | undefined) => (!model ? "" : model === "imported" ? "imported" : "model");

/** The label of a box, of the parts that it has. */
export const boxTag = (...parts: (string | false)[]) => parts.filter(Boolean).join(" · ");

/** The boxes of a question that were accepted before. A box of a model is marked on every page. */
export function acceptedBoxes({ task, boxes, box_models }: QuestionInfo): StyledBox[] {
  const isAsked = task === "coverage";
  return boxes.map((box, place) => {
    const model = modelTag(box_models[place]);
    return {
      box,
      look: isAsked ? "asked" : "other",
      isModel: Boolean(model),
      tag: boxTag(isAsked && `${place + 1}`, model),
    };
  });
}

/** The box that is judged, if there is one. */
export function judgedBoxes(question: QuestionInfo): StyledBox[] {
  const { task, new_box } = question;
  if (!new_box) return [];
  const model = task === "pair" ? "model" : modelTag(proposalOf(question)?.model);
  return [{ box: new_box, look: "asked", isModel: Boolean(model), tag: model }];
}

/** Where a model has had a hand in what is shown. */
export function proposalLine(question: QuestionInfo): string {
  const { task } = question;
  const proposal = proposalOf(question);
  if (!proposal) return "";
  if (proposal.model === "imported")
    return task === "verify" ? "Put together in the imported data" : "This box came with the imported data";
  const sure = proposal.probability ? ` (${Math.round(100 * proposal.probability)} % sure)` : "";
  if (task === "quality") return `A model drew this box${sure}`;
  if (task === "drawing") return "A model suggests a box";
  if (task === "verify") return "A model put these together; people have not looked yet";
  return `With a model’s guess${sure}`;
}
