// Sorting phrases into groups: take a phrase, then choose where it belongs.
import { useState } from "preact/hooks";
import { markOf } from "../colours";
import type { MentionInfo, QuestionInfo } from "./schema";

export type Groups = readonly (readonly string[])[];

/** Every phrase alone. */
export const groupsAlone = ({ mentions }: QuestionInfo): Groups => mentions.map(({ id }) => [id]);

/** The place of each phrase's group. */
export const groupPlaces = ({ mentions }: QuestionInfo, groups: Groups): number[] =>
  mentions.map(({ id }) => groups.findIndex((group) => group.includes(id)));

interface Props {
  question: QuestionInfo;
  groups: Groups;
  onGroups: (groups: Groups) => void;
}

export function GroupSorter({ question, groups, onGroups }: Props) {
  const [taken, setTaken] = useState<string | null>(null);
  const byId = new Map(question.mentions.map((mention) => [mention.id, mention]));
  const fits = (group: readonly string[]) =>
    taken !== null && group.every((id) => id === taken || byId.get(id)!.caption !== byId.get(taken)!.caption);
  const move = (target: readonly string[] | null) => {
    if (taken === null) return;
    const left = groups.map((group) => group.filter((id) => id !== taken));
    const at = target ? groups.indexOf(target) : -1;
    const moved = at < 0 ? [...left, [taken]] : left.map((group, place) => (place === at ? [...group, taken] : group));
    onGroups(moved.filter((group) => group.length));
    setTaken(null);
  };
  const press = (id: string, group: readonly string[]) => {
    if (taken === null || taken === id) setTaken(taken === id ? null : id);
    else if (group.includes(taken) || !fits(group)) setTaken(id);
    else move(group);
  };
  const isAlone = taken !== null && groups.some((group) => group.length === 1 && group[0] === taken);
  return (
    <div class="groups">
      <p class="hint is-needed">
        {taken === null ? "Press a phrase that belongs to another one." : "Now press the phrase to which it belongs."}
      </p>
      {groups.map((group, place) => (
        <div
          key={group[0]}
          class={`phrase-group${taken !== null && !group.includes(taken) && fits(group) ? " is-open" : ""}`}
          style={{ "--mark": markOf(place).colour }}
          role="group"
          aria-label={`Group ${place + 1}`}
        >
          {group.map((id) => (
            <button
              key={id}
              class="phrase"
              dir="auto"
              aria-pressed={taken === id}
              aria-label={describe(byId.get(id)!)}
              onClick={() => press(id, group)}
            >
              {byId.get(id)!.text} <span class="soft">{byId.get(id)!.caption + 1}</span>
            </button>
          ))}
        </div>
      ))}
      {taken !== null && !isAlone && (
        <button class="quiet" onClick={() => move(null)}>
          Let it stand alone
        </button>
      )}
    </div>
  );
}

const describe = ({ text, caption }: MentionInfo) => `${text}, caption ${caption + 1}`;
