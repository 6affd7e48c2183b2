import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { OwnWorkResponse, QualificationInfo, UserInfo } from "./schema";
import { Tokens } from "./tokens";
import { Failure, Password, Username, useSubmit } from "./login";
import { StayChoice, keepStay, readStay } from "./stay";
import { TASK_TEXTS, describeTest } from "./tasks";

const LEVELS: Record<string, string> = {
  "history too short": "Not open to you yet",
  "in the test": "Test first",
  "first items": "First items",
  trusted: "Open",
  "failed the test": "Closed after the test",
  suspended: "Closed to you",
};

export function Levels({ standings }: { standings: readonly QualificationInfo[] }) {
  return (
    <table class="levels">
      <caption class="unseen">Your tasks</caption>
      <tbody>
        {standings.map(({ task, level, test }) => (
          <tr key={task}>
            <th scope="row">{TASK_TEXTS[task].name}</th>
            <td>
              {LEVELS[level] ?? level}
              {test && (test.done > 0 || test.attempt > 1) && ` (${describeTest(test, false)})`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What somebody has done, may do, and their password. */
export function OwnWorkPage({ user }: { user: UserInfo }) {
  const [me, setMe] = useState<OwnWorkResponse | null>(null);
  const [old, setOld] = useState("");
  const [fresh, setFresh] = useState("");
  const [isChanged, setChanged] = useState(false);
  const [stay, setStay] = useState(readStay);
  const { failure, isBusy, run } = useSubmit();
  useEffect(() => {
    api.me().then(setMe, () => undefined);
  }, []);
  return (
    <main class="page is-narrow" tabIndex={-1}>
      <h1>You</h1>
      {me && (
        <section class="card">
          <dl class="figures">
            <div>
              <dd>{me.judged.toLocaleString("en")}</dd>
              <dt>answers</dt>
            </div>
            <div>
              <dd>{me.hours.toFixed(1)}</dd>
              <dt>hours</dt>
            </div>
            <div>
              <dd>{me.pay.toFixed(2)}</dd>
              <dt>{me.currency}</dt>
            </div>
          </dl>
          <Levels standings={me.tasks} />
          <label class="stay">
            Next questions{" "}
            <StayChoice
              stay={stay}
              onStay={(what) => {
                keepStay(what);
                setStay(what);
              }}
            />
          </label>
        </section>
      )}
      <Tokens />
      <section class="card">
        <form
          class="edit"
          onSubmit={(event) => {
            event.preventDefault();
            setChanged(false);
            void run(async () => {
              await api.changePassword(old, fresh);
              setOld("");
              setFresh("");
              setChanged(true);
            });
          }}
        >
          <h2>Change the password</h2>
          <Username name={user.name ?? ""} />
          <Password label="Password now" value={old} onValue={setOld} />
          <Password label="New password" hint="At least 10 characters" value={fresh} isNew onValue={setFresh} />
          <Failure line={failure} />
          <p class="row">
            <button type="submit" disabled={isBusy || !old || [...fresh].length < 10}>
              Change it
            </button>
            {isChanged && <span role="status">Changed. Other devices are signed out.</span>}
          </p>
        </form>
      </section>
    </main>
  );
}
