import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { CorrectionSummary, Dashboard, Task, TaskProgress, UserInfo, WorkerProgress } from "./schema";
import { Failure, useSubmit } from "./login";
import { TASK_TEXTS } from "./tasks";

const LOOK_AGAIN_MS = 10_000;
const WIDEST_BAR = 48;
const KEEP_FILE_MS = 60_000; // while the browser saves it

/** How far the project is, how fast it goes, what it costs, and how good everybody's work is. */
export function DashboardPage({ user, formats }: { user: UserInfo; formats: readonly string[] }) {
  const [said, setSaid] = useState<Dashboard | null>(null);
  const [failure, setFailure] = useState("");
  const look = () => {
    api.dashboard().then(
      (found) => {
        setSaid(found);
        setFailure("");
      },
      (error) => setFailure(api.errorMessage(error)),
    );
  };
  useEffect(() => {
    look();
    const again = setInterval(() => document.hidden || look(), LOOK_AGAIN_MS);
    return () => clearInterval(again);
  }, []);
  return (
    <main class="page" tabIndex={-1}>
      <h1>Dashboard</h1>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {said && (
        <>
          <Figures said={said} />
          {user.role === "owner" && said.judged === 0 && <FirstSteps />}
          <Blocked said={said} />
          <Advice lines={said.advice} />
          <Corrections made={said.corrections} />
          <Pace pace={said.pace} />
          {user.role === "owner" && said.judged > 0 && <Export said={said} formats={formats} />}
          <Tasks tasks={said.tasks} />
          <Workers said={said} user={user} onChange={look} />
        </>
      )}
    </main>
  );
}

function Figures({ said }: { said: Dashboard }) {
  const share = said.photos ? said.finished / said.photos : 0;
  const figures: [string, string][] = [
    [`${said.judged.toLocaleString("en")}`, "judgements"],
    [`${Math.round(said.per_hour).toLocaleString("en")}`, "an hour"],
    [said.hours.toFixed(1), "hours of work"],
    [`${said.cost.toFixed(2)}`, `${said.currency} so far`],
    [said.hours_left === null ? "–" : said.hours_left.toFixed(1), "hours of work left"],
    [said.waiting.toLocaleString("en"), "waiting for review"],
  ];
  return (
    <section aria-label="Progress">
      <p class="share">
        <span class="meter is-large" aria-hidden="true">
          <span style={{ width: `${100 * share}%` }} />
        </span>
        <span>
          <b>
            {said.finished.toLocaleString("en")} of {said.photos.toLocaleString("en")}
          </b>{" "}
          photos finished ({Math.round(100 * share)} %)
        </span>
      </p>
      <dl class="figures">
        {figures.map(([figure, what]) => (
          <div key={what}>
            <dd>{figure}</dd>
            <dt>{what}</dt>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** What an owner does before anybody has answered. */
function FirstSteps() {
  return (
    <section class="card" aria-label="First steps">
      <h2>First steps</h2>
      <ol class="steps">
        <li>
          Look through the phrases of some photos in the <a href="#/gallery">gallery</a>. Corrections are easiest before
          people begin.
        </li>
        <li>
          Read the <a href="#/guidelines">guidelines</a>, and change what your photos need.
        </li>
        <li>
          <a href="#/people">Invite people</a>: two at least, because nobody judges their own boxes. With three, a tie of two
          needs no decision of yours.
        </li>
      </ol>
    </section>
  );
}

/** What cannot go on, and who can help. */
function Blocked({ said }: { said: Dashboard }) {
  const lines = Object.entries(said.blocked).map(([waitsFor, count]) => `of these, ${questions(count)} ${waitsFor}`);
  if (said.waiting) lines.unshift(`${said.waiting === 1 ? "1 thing waits" : `${said.waiting.toLocaleString("en")} things wait`} for a reviewer`);
  if (!lines.length) return null;
  return (
    <section class="card blocked" aria-label="Blocked">
      <h2>Blocked</h2>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <a class="button" href="#/review">
        Decide
      </a>
    </section>
  );
}

/** Settings that keep people from working. */
function Advice({ lines }: { lines: readonly string[] }) {
  if (!lines.length) return null;
  return (
    <section class="card blocked" aria-label="Settings">
      <h2>Settings</h2>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </section>
  );
}

/** How far the leads agreed with what people had said. */
function Corrections({ made }: { made: CorrectionSummary }) {
  if (!made.photos) return null;
  const boxes = made.boxes_kept + made.boxes_moved + made.boxes_deleted;
  const share = (count: number) => (boxes ? ` (${Math.round((100 * count) / boxes)} %)` : "");
  return (
    <section class="card" aria-label="Corrections">
      <h2>Corrections</h2>
      <p>
        {made.photos === 1 ? "1 photo was" : `${made.photos} photos were`} corrected. Of {boxes} boxes there,{" "}
        {made.boxes_kept} were kept{share(made.boxes_kept)}, {made.boxes_moved} moved and {made.boxes_deleted} deleted;{" "}
        {made.boxes_added} {made.boxes_added === 1 ? "was" : "were"} added.
        {made.same_chain !== null && made.same_chain < 1 && (
          <> Phrases are together as before in {(100 * made.same_chain).toFixed(1)} % of pairs.</>
        )}
      </p>
      <p class="card-link">
        <a class="button" href="#/gallery">
          Gallery
        </a>
      </p>
    </section>
  );
}

/** The finished photos as a file, at any time. */
function Export({ said, formats }: { said: Dashboard; formats: readonly string[] }) {
  const { failure, isBusy, run } = useSubmit();
  const fetchFile = async (form: FormData) => {
    const file = await api.exported(String(form.get("to")), form.has("unfinished"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "annotations.zip";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), KEEP_FILE_MS);
  };
  return (
    <section class="card" aria-label="Export">
      <h2>Export</h2>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          run(() => fetchFile(form));
        }}
      >
        <label>
          Format{" "}
          <select name="to">
            {formats.map((format) => (
              <option key={format}>{format}</option>
            ))}
          </select>
        </label>
        <label class="check">
          <input type="checkbox" name="unfinished" defaultChecked={!said.finished} />
          Unfinished photos too
        </label>
        <button type="submit" disabled={isBusy}>
          {isBusy ? "Writing the files …" : "Download (zip)"}
        </button>
      </form>
      <Failure line={failure} />
    </section>
  );
}

const questions = (count: number) => (count === 1 ? "1 question waits for" : `${count.toLocaleString("en")} questions wait for`);

/** Judgements by the hour, for the hours in which there were any. */
function Pace({ pace }: { pace: Dashboard["pace"] }) {
  if (pace.length < 2) return null;
  const most = Math.max(...pace.map(({ judged }) => judged));
  const hour = (at: number) =>
    new Date(at * 1000).toLocaleString("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
  return (
    <section>
      <h2>Judgements by the hour</h2>
      <div style={{ maxWidth: `${pace.length * WIDEST_BAR}px` }}>
        <ol class="pace">
          {pace.map(({ at, judged }) => (
            <li key={at} title={`${hour(at)}: ${judged}`}>
              <span class="pace-bar" style={{ height: `${(100 * judged) / most}%` }} />
              <span class="unseen">{`${hour(at)}: ${judged}`}</span>
            </li>
          ))}
        </ol>
        <p class="pace-ends hint" aria-hidden="true">
          <span>{hour(pace[0]!.at)}</span>
          <span>{hour(pace.at(-1)!.at)}</span>
        </p>
      </div>
    </section>
  );
}

function Tasks({ tasks }: { tasks: readonly TaskProgress[] }) {
  return (
    <section>
      <h2>Tasks</h2>
      <div class="wide-table">
        <table>
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Waiting</th>
              <th scope="col">Judged</th>
              <th scope="col">Seconds each</th>
              <th scope="col">Equal answers</th>
              <th scope="col" title="Krippendorff’s alpha: 1 is perfect, 0 is chance">
                α
              </th>
              <th scope="col">Known answers</th>
            </tr>
          </thead>
          <tbody>
            {tasks.map((task) => (
              <tr key={task.task}>
                <th scope="row">{TASK_TEXTS[task.task].name}</th>
                <td>{task.open.toLocaleString("en")}</td>
                <td>{task.judged.toLocaleString("en")}</td>
                <td>{task.judged ? task.seconds.toFixed(1) : "–"}</td>
                <td>
                  {task.agreeing === null ? (
                    "–"
                  ) : (
                    <>
                      {Math.round(100 * task.agreeing)} % <span class="soft">of {task.votes} on {task.compared}</span>
                    </>
                  )}
                </td>
                <td>{task.agreement === null ? "–" : task.agreement.toFixed(2)}</td>
                <td>{task.known.toLocaleString("en")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        Equal answers: pairs of answers to one question, where several people were asked the same. α is agreement beyond
        chance; it is shown from ten votes for other answers than the most frequent one, because a single vote would change
        it too much.
      </p>
    </section>
  );
}

const CLOSED = ["suspended", "failed the test"];

function Workers({ said, user, onChange }: { said: Dashboard; user: UserInfo; onChange: () => void }) {
  return (
    <section>
      <h2 class="with-action">
        People
        {user.role === "owner" && (
          <a class="button" href={`${api.BASE}/api/pay.csv`} download="pay.csv">
            Hours and pay (CSV)
          </a>
        )}
      </h2>
      <div class="wide-table">
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="is-text">
                Last seen
              </th>
              <th scope="col">Judged</th>
              <th scope="col">Skipped</th>
              <th scope="col">Hours</th>
              <th scope="col">Pay ({said.currency})</th>
              <th scope="col">Accuracy</th>
              <th scope="col" class="is-text">
                Tasks
              </th>
            </tr>
          </thead>
          <tbody>
            {said.workers.map((worker) => (
              <tr key={worker.worker}>
                <th scope="row" dir="auto">
                  {worker.name ?? <span class="soft">forgotten</span>}
                  {worker.suspended && <span class="chip">suspended</span>}
                </th>
                <td class="is-text">
                  <Seen worker={worker} onChange={onChange} />
                </td>
                <td>{worker.judged.toLocaleString("en")}</td>
                <td>{worker.skipped.toLocaleString("en")}</td>
                <td>{worker.hours.toFixed(2)}</td>
                <td>{worker.pay.toFixed(2)}</td>
                <td>
                  {worker.accuracy === null ? (
                    "–"
                  ) : (
                    <>
                      {Math.round(100 * worker.accuracy)} % <span class="soft">of {worker.checked}</span>
                    </>
                  )}
                </td>
                <td class="is-text">
                  <TaskLevels worker={worker} tasks={said.tasks.map(({ task }) => task)} onChange={onChange} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint legend">
        Tasks in the order above: <span class="level-dot is-in-the-test" /> in the test{" "}
        <span class="level-dot is-first-items" /> first items <span class="level-dot is-trusted" /> trusted{" "}
        <span class="level-dot is-suspended" /> suspended or failed; press to open it again
      </p>
    </section>
  );
}

/** When somebody was here last, and a way to give what waits for somebody absent to others. */
function Seen({ worker: { worker, seen_at, absent, waiting }, onChange }: { worker: WorkerProgress; onChange: () => void }) {
  const [said, setSaid] = useState("");
  const reassign = () =>
    api.reassign(worker).then(({ released, asked_again, for_review }) => {
      setSaid(`${released + asked_again} given to others, ${for_review} for review`);
      onChange();
    }, (error) => setSaid(api.errorMessage(error)));
  return (
    <>
      {seen_at === null ? <span class="soft">–</span> : ago(api.serverNow() - seen_at)}
      {absent && (seen_at || waiting > 0) && <> <span class="chip">absent</span> </>}
      {absent && waiting > 0 && !said && (
        <button class="link" onClick={reassign}>
          Ask others the {waiting === 1 ? "question that waits" : `${waiting.toLocaleString("en")} questions that wait`}
        </button>
      )}
      <span role="status">{said}</span>
    </>
  );
}

function ago(seconds: number): string {
  const [unit, length] = ([["day", 86400], ["hour", 3600], ["minute", 60]] as const).find((each) => seconds >= each[1]) ?? ["minute", 60];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(Math.max(seconds, 0) / length), unit);
}

/** A dot for each task; closed ones can be opened again. */
function TaskLevels({ worker, tasks, onChange }: { worker: WorkerProgress; tasks: Task[]; onChange: () => void }) {
  return (
    <span class="level-dots">
      {tasks.map((task) => {
        const level = worker.levels[task];
        const label = `${TASK_TEXTS[task].name}: ${level ?? "not begun"}`;
        const look = `level-dot is-${(level ?? "none").replaceAll(" ", "-")}`;
        if (!level || !CLOSED.includes(level) || worker.name === null)
          return <span key={task} class={look} role="img" aria-label={label} title={label} />;
        return (
          <button
            key={task}
            class={look}
            aria-label={`${label}. Open it again, beginning with the test`}
            title={`${label}. Open it again, beginning with the test`}
            onClick={() => void api.reinstate(worker.worker, task).then(onChange, onChange)}
          />
        );
      })}
    </span>
  );
}
