// Proposals of models, which are always marked as such.
import type { Box } from "../api";
import type { Question } from "./api";

export function proposedBoxes({ task, proposal }: Question): Box[] {
  if (task !== "drawing" || !proposal) return [];
  return proposal.boxes ?? (proposal.box ? [proposal.box] : []);
}

/** The label of a box that no person drew; empty for people's. */
export const modelTag = (model: string | null | undefined) => (!model ? "" : model === "imported" ? "imported" : "model");

/** Where a model has had a hand in what is shown. */
export function proposalLine({ task, proposal }: Question): string {
  if (!proposal) return "";
  if (proposal.model === "imported")
    return task === "verify" ? "Put together in the imported data" : "This box came with the imported data";
  const sure = proposal.probability ? ` (${Math.round(100 * proposal.probability)} % sure)` : "";
  if (task === "quality") return `A model drew this box${sure}`;
  if (task === "drawing") return "A model suggests a box";
  if (task === "verify") return "A model put these together; people have not looked yet";
  return `With a model’s guess${sure}`;
}
