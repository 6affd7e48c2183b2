// Joining by an invitation, and logging in with name and password.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api";
import type { InvitationResponse, SessionResponse, UserInfo } from "./schema";
import { Waiting } from "./waiting";

const SHORTEST = 10;

interface Props {
  project: string;
  provider: string | null;
  token: string;
  user: UserInfo | null;
  isExpelled: boolean; // the session has ended while the page was open
  onIn: (session: SessionResponse) => void;
}

const REFUSED: Record<string, string> = {
  unknown: "You are not in this project yet. Open the link of your invitation and sign in there.",
  suspended: "The project's owner has suspended you; ask them.",
  invitation: "This invitation is unknown or was used already; ask the project's owner for a new one.",
  failed: "The sign-in did not work. Please try again.",
};

/** Sign in where one has an account already. */
function ProviderButton({ provider, invitation = "" }: { provider: string | null; invitation?: string }) {
  const { failure, isBusy, run } = useSubmit();
  const refused = REFUSED[new URLSearchParams(location.search).get("sign-in") ?? ""];
  if (!provider) return null;
  const begin = () => void run(async () => location.assign((await api.beginSignIn(invitation)).url));
  return (
    <div class="provider">
      <Failure line={failure || refused || ""} />
      <button disabled={isBusy} onClick={begin}>
        Continue with {provider}
      </button>
    </div>
  );
}

export function LoginPage({ project, provider, token, user, isExpelled, onIn }: Props) {
  return (
    <main class="door">
      <p class="name" aria-hidden="true">
        de<span>i</span>xis
      </p>
      {token ? <Join token={token} user={user} onIn={onIn} /> : <SignIn project={project} isExpelled={isExpelled} onIn={onIn} />}
      <ProviderButton provider={provider} invitation={token} />
    </main>
  );
}

function Join({ token, user, onIn }: { token: string; user: UserInfo | null; onIn: Props["onIn"] }) {
  const [invited, setInvited] = useState<InvitationResponse | null>(null);
  const [refused, setRefused] = useState("");
  const [password, setPassword] = useState("");
  const { failure, isBusy, run } = useSubmit();

  useEffect(() => {
    api.invitation(token).then(setInvited, (error) => setRefused(api.errorMessage(error)));
  }, [token]);

  if (refused)
    return (
      <>
        <h1>This invitation does not work.</h1>
        <p class="lead">{refused}</p>
        <p>
          <a href="#/">{user ? "Back to work" : "Sign in instead"}</a>
        </p>
      </>
    );
  if (!invited) return <Waiting />;
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        run(async () => onIn(await api.join(token, password)));
      }}
    >
      <h1>
        Welcome, <bdi>{invited.name}</bdi>
      </h1>
      <p class="lead">
        You are invited to <b dir="auto">{invited.project}</b> as{" "}
        {invited.role === "owner" ? "an owner" : `a ${invited.role}`}.{" "}
        {invited.role === "owner"
          ? "You invite people, look after phrases and guidelines, and see how the work goes."
          : "You will be shown photos with captions and asked one small question at a time."}{" "}
        {invited.known
          ? "You are signed in to this server; your password stays as it is."
          : "Choose a password to come back with; your name here is "}
        {!invited.known && <b dir="auto">{invited.name}</b>}
        {!invited.known && "."}
      </p>
      <Username name={invited.name ?? ""} />
      {!invited.known && (
        <Password
          label="Password"
          hint={`At least ${SHORTEST} characters`}
          value={password}
          isNew
          onValue={setPassword}
        />
      )}
      <Failure line={failure} />
      <button class="main" type="submit" disabled={isBusy || (!invited.known && [...password].length < SHORTEST)}>
        Join
      </button>
    </form>
  );
}

function SignIn({ project, isExpelled, onIn }: Pick<Props, "project" | "isExpelled" | "onIn">) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { failure, isBusy, run } = useSubmit();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        run(async () => onIn(await api.login(name.trim(), password)));
      }}
    >
      <h1>Sign in</h1>
      {isExpelled && (
        <p class="lead" role="status">
          You are not signed in any more. Sign in again; if that is refused, the page says why.
        </p>
      )}
      <p class="lead">
        Project <b dir="auto">{project}</b>. If you are new here, open the link of your invitation.
      </p>
      <label>
        Name
        <input
          ref={field}
          dir="auto"
          autocomplete="username"
          required
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <Password label="Password" value={password} onValue={setPassword} />
      <Failure line={failure} />
      <button class="main" type="submit" disabled={isBusy || !name.trim() || !password}>
        Sign in
      </button>
    </form>
  );
}

/** For what remembers passwords. */
export const Username = ({ name }: { name: string }) => (
  <input type="text" class="unseen" tabIndex={-1} aria-hidden="true" autocomplete="username" value={name} readOnly />
);

interface PasswordProps {
  label: string;
  hint?: string;
  value: string;
  isNew?: boolean;
  onValue: (value: string) => void;
}

export function Password({ label, hint, value, isNew = false, onValue }: PasswordProps) {
  const [isSeen, setSeen] = useState(false);
  const kind = isSeen ? ({ type: "text" } as const) : ({ type: "password" } as const);
  return (
    <label>
      {label} {hint && <span class="soft">{hint}</span>}
      <span class="with-button">
        <input
          {...kind}
          autocomplete={isNew ? "new-password" : "current-password"}
          required
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
        <button type="button" class="quiet" aria-pressed={isSeen} onClick={() => setSeen(!isSeen)}>
          {isSeen ? "Hide" : "Show"}
        </button>
      </span>
    </label>
  );
}

export function Failure({ line }: { line: string }) {
  return (
    <p class="failure" role="alert">
      {line}
    </p>
  );
}

/** Something that may fail, and then says why. */
export function useSubmit() {
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const run = async (work: () => Promise<void>) => {
    setBusy(true);
    setFailure("");
    try {
      await work();
    } catch (error) {
      setFailure(api.errorMessage(error));
    }
    setBusy(false);
  };
  return { failure, isBusy, run };
}
