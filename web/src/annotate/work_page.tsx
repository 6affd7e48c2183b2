// The page of a worker: the current question, notices, and what is shown without a question.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { ExternalProgress, OwnWorkResponse, QualificationInfo, QuestionInfo, SessionResponse, Task } from "./schema";
import { WorkQueue } from "./work_queue";
import { LessonView } from "./lesson";
import { Levels } from "./own_work";
import { StayChoice } from "./stay";
import { TASK_TEXTS, describeLevelChanges } from "./tasks";
import { Waiting } from "./waiting";
import { Work } from "./work";

const GUIDE_KEY = "deixis-guide";
const LOOK_AGAIN_MS = 60_000;

interface Props {
  session: SessionResponse;
  worker: string;
  guidelines: api.Guidelines | null;
  onSignedOut: () => void;
  onGuidelines: (guidelines: api.Guidelines) => void;
  onExternal?: (external: ExternalProgress) => void;
}

export function WorkPage({ session, worker, guidelines, onSignedOut, onGuidelines, onExternal }: Props) {
  const [, redraw] = useState(0);
  const [me, setMe] = useState<OwnWorkResponse | null>(null);
  const [isGuideOpen, setGuideOpen] = useState(isGuideWanted);
  const [versions, setVersions] = useState<Partial<Record<Task, number>>>({});
  const queue = useRef<WorkQueue | null>(null);
  const standings = useRef<readonly QualificationInfo[]>([]);

  const stand = (found: readonly QualificationInfo[]) => {
    const before = standings.current;
    const told = describeLevelChanges(found.map((is) => ({ was: before.find(({ task }) => task === is.task), is })));
    const others = standings.current.filter(({ task }) => !found.some((each) => each.task === task));
    standings.current = [...others, ...found];
    if (told) queue.current?.tell(told);
  };
  const lookAtMe = async () => {
    const found = await api.me().catch(() => null);
    if (!found) return;
    stand(found.tasks);
    setVersions(found.guidelines);
    setMe({ ...found, judged: found.judged - (queue.current?.answered ?? 0) });
  };

  useEffect(() => {
    const made = new WorkQueue(session.project, worker, {
      change: () => redraw((count) => count + 1),
      standing: (standing) => stand([standing]),
    });
    queue.current = made;
    void lookAtMe();
    const again = setInterval(() => document.hidden || void lookAtMe(), LOOK_AGAIN_MS);
    return () => {
      made.close();
      clearInterval(again);
    };
  }, [worker]);

  const now = queue.current;
  useEffect(() => {
    if (now?.isSignedOut) onSignedOut();
  }, [now?.isSignedOut]);
  useEffect(() => {
    if (now?.external) onExternal?.(now.external);
  }, [now?.external]);

  // Guidelines that were edited since: a question names its version, and the page asks every minute.
  const task = now?.current?.task;
  const newest = task ? Math.max(now?.current?.guideline ?? 0, versions[task] ?? 0) : 0;
  const isOld = Boolean(task && (guidelines?.[task]?.version ?? newest) < newest);
  useEffect(() => {
    if (!isOld || !task) return;
    api.guidelines().then((found) => {
      onGuidelines(found);
      now?.tell({ line: `The guidelines of “${TASK_TEXTS[task].name}” have changed.`, kind: "plain" });
      setGuideOpen(true);
    }, () => undefined);
  }, [isOld, task]);

  const guide = (isOpen: boolean) => {
    setGuideOpen(isOpen);
    keepGuide(isOpen);
  };
  if (!now) return <Waiting />;
  const { current } = now;
  return (
    <div class="workplace">
      <p class="status" role="status">
        {now.isOffline ? (
          <span class="status-line is-trouble">
            The server cannot be reached.{" "}
            {now.unsent
              ? `Your answers are kept (${now.unsent}) and will be sent as soon as it is there again.`
              : "This page tries again by itself."}
          </span>
        ) : (
          now.notice && <span class={`status-line is-${now.notice.kind}`}>{now.notice.line}</span>
        )}
      </p>
      <p class="unseen" aria-live="polite">
        {current && spoken(current)}
      </p>
      {now.taught ? (
        <LessonView
          key={now.taught.question.token}
          taught={now.taught}
          hasPicture={session.photos}
          guideline={guidelines?.[now.taught.question.task] ?? null}
          isGuideOpen={isGuideOpen}
          onProceed={() => now.proceed()}
        />
      ) : current ? (
        <Work
          key={current.token}
          queue={now}
          question={current}
          hasPicture={session.photos}
          guideline={guidelines?.[current.task] ?? null}
          testOf={standings.current.find(({ task }) => task === current.task)?.test ?? null}
          isGuideOpen={isGuideOpen}
          onGuide={guide}
        />
      ) : (
        <Nothing why={now.why} standings={standings.current} />
      )}
      <Progress me={me} answered={now.answered} unsent={now.unsent} stay={now.stay} onStay={(what) => now.stayWith(what)} />
    </div>
  );
}

function Nothing({ why, standings }: { why: string | null; standings: readonly QualificationInfo[] }) {
  if (why === null) return <Waiting />;
  return (
    <main class="notice">
      <h1>No question for you right now.</h1>
      <p>{sentence(why)}</p>
      <p>You can leave this page open: it looks again every 15 seconds.</p>
      <Levels standings={standings} />
    </main>
  );
}

interface ProgressProps {
  me: OwnWorkResponse | null;
  answered: number;
  unsent: number;
  stay: api.Stay;
  onStay: (what: api.Stay) => void;
}

function Progress({ me, answered, unsent, stay, onStay }: ProgressProps) {
  if (!me) return null;
  const { photos, finished } = me.project;
  return (
    <footer class="progress">
      <span>
        {count(me.judged + answered, "answer")} by you
        {unsent > 0 && ` · ${unsent} on the way`}
      </span>
      <label class="stay">
        <span class="unseen">Next questions</span>
        <StayChoice stay={stay} onStay={onStay} />
      </label>
      <span class="progress-share">
        <span class="meter" aria-hidden="true">
          <span style={{ width: `${photos ? (100 * finished) / photos : 0}%` }} />
        </span>
        {finished.toLocaleString("en")} of {count(photos, "photo")} finished
      </span>
    </footer>
  );
}

const count = (number: number, what: string) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

const sentence = (line: string) =>
  line ? `${line[0]!.toUpperCase()}${line.slice(1)}${/[.!?]$/.test(line) ? "" : "."}` : "";

/** A question as it is read aloud. */
function spoken(question: QuestionInfo): string {
  const seen = question.boxes.length ? ` Boxes drawn so far: ${question.boxes.length}.` : "";
  return `${TASK_TEXTS[question.task].question(question)}${seen}`;
}

/** Open at first where there is room for it; then as somebody left it. */
function isGuideWanted(): boolean {
  try {
    const kept = localStorage.getItem(GUIDE_KEY);
    if (kept) return kept === "open";
  } catch {
    // Nothing is kept here.
  }
  return matchMedia("(min-width: 1200px)").matches;
}

function keepGuide(isOpen: boolean) {
  try {
    localStorage.setItem(GUIDE_KEY, isOpen ? "open" : "closed");
  } catch {
    // Nothing is kept here.
  }
}
