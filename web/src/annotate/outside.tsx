// The same work inside another site's frame, for workers that come from there.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import { Said } from "./app";
import { Workplace } from "./workplace";

const GIVEN = ["key", "assignmentId", "hitId", "workerId", "turkSubmitTo"];

export function FromOutside() {
  const [failure, setFailure] = useState("");
  const [entered, setEntered] = useState<api.Entered | null>(null);
  const [session, setSession] = useState<api.Session | null>(null);
  const [guidelines, setGuidelines] = useState<api.Guidelines | null>(null);
  const [outside, setOutside] = useState<api.Outside | null>(null);

  useEffect(() => {
    const said = new URLSearchParams(location.search);
    const enter = async () => {
      const found = await api.enterFromOutside(Object.fromEntries(GIVEN.map((name) => [name, said.get(name) ?? ""])));
      setOutside(found.preview ? null : found);
      setSession(await api.session());
      setEntered(found);
      if (!found.preview) setGuidelines(await api.guidelines());
    };
    enter().catch((error) => setFailure(api.lineOf(error)));
  }, []);

  if (failure) return <Said title="This cannot be shown." line={failure} />;
  if (!entered || !session) return null;
  if (entered.preview)
    return (
      <main class="page is-narrow">
        <h1>Questions about photos</h1>
        <p class="lead">
          You will be shown photos with captions and asked one small question at a time: whether two phrases mean the
          same, where something is, whether a box is good. This is a preview: accept the task first, then the questions
          come here.
        </p>
      </main>
    );
  if (outside?.submit) return <Submit submit={outside.submit} />;
  return (
    <>
      <header class="bar">
        <span class="name">
          de<span>i</span>xis
        </span>
        <span class="who">
          {outside?.done ?? 0} of {outside?.items ?? 0}
        </span>
      </header>
      <Workplace
        session={session}
        worker={session.user?.id ?? "outside"}
        guidelines={guidelines}
        onSignedOut={() => setFailure("The session is over. Load the page again.")}
        onOutside={setOutside}
      />
    </>
  );
}

function Submit({ submit }: { submit: NonNullable<api.Outside["submit"]> }) {
  return (
    <main class="notice">
      <h1>That was the last one. Thank you!</h1>
      <form method="POST" action={submit.url}>
        {Object.entries(submit.fields).map(([name, value]) => (
          <input key={name} type="hidden" name={name} value={value} />
        ))}
        <button class="main" type="submit">
          Submit
        </button>
      </form>
    </main>
  );
}
