// The workbench inside a frame of an external workforce's site.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { ExternalProgress, ExternalResponse, SessionResponse } from "./schema";
import { Said } from "./app";
import { Waiting } from "./waiting";
import { WorkPage } from "./work_page";

const GIVEN = ["key", "assignmentId", "hitId", "workerId", "turkSubmitTo"];

export function ExternalPage() {
  const [failure, setFailure] = useState("");
  const [entered, setEntered] = useState<ExternalResponse | null>(null);
  const [session, setSession] = useState<SessionResponse | null>(null);
  const [guidelines, setGuidelines] = useState<api.Guidelines | null>(null);
  const [external, setExternal] = useState<ExternalProgress | null>(null);

  useEffect(() => {
    const said = new URLSearchParams(location.search);
    const enter = async () => {
      const asked = Object.fromEntries(GIVEN.map((name) => [name, said.get(name) ?? ""]));
      const found = await api.enterExternal({ ...asked, session: keptSession(asked.assignmentId!) });
      keepSession(asked.assignmentId!, found.session);
      setExternal(found.preview ? null : found);
      setSession(await api.session());
      setEntered(found);
      if (!found.preview) setGuidelines(await api.guidelines());
    };
    enter().catch((error) => setFailure(api.errorMessage(error)));
  }, []);

  if (failure) return <Said title="This cannot be shown." line={failure} />;
  if (!entered || !session) return <Waiting />;
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
  if (external?.submit) return <Submit submit={external.submit} />;
  return (
    <>
      <header class="bar">
        <span class="name">
          de<span>i</span>xis
        </span>
        <span class="who">
          {external?.done ?? 0} of {external?.items ?? 0}
        </span>
      </header>
      <WorkPage
        session={session}
        worker={session.user?.id ?? "external"}
        guidelines={guidelines}
        onGuidelines={setGuidelines}
        onSignedOut={() => setFailure("The session is over. Load the page again.")}
        onExternal={setExternal}
      />
    </>
  );
}

// An assignment can be entered once, so a page that is loaded again needs the token of its session.
const SESSION = "deixis-assignment ";

function keptSession(assignment: string): string {
  try {
    return sessionStorage.getItem(SESSION + assignment) ?? "";
  } catch {
    return ""; // Frames of other sites may keep nothing.
  }
}

function keepSession(assignment: string, session: string | null | undefined) {
  if (!session) return;
  try {
    sessionStorage.setItem(SESSION + assignment, session);
  } catch {
    addEventListener("beforeunload", askBeforeLeaving); // this window cannot come back
  }
}

const askBeforeLeaving = (event: Event) => event.preventDefault();

function Submit({ submit }: { submit: NonNullable<ExternalProgress["submit"]> }) {
  return (
    <main class="notice">
      <h1>That was the last one. Thank you!</h1>
      <form method="POST" action={submit.url} onSubmit={() => removeEventListener("beforeunload", askBeforeLeaving)}>
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
