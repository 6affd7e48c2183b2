import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { Person, Role, UserInfo } from "./schema";
import { Dialog } from "./dialog";
import { Failure, useSubmit } from "./login";

const ROLES: Record<Role, string> = {
  worker: "Worker: answers questions",
  reviewer: "Reviewer: decides, too",
  owner: "Owner: everything",
};

const ASKED = {
  link: {
    title: "A new link?",
    hint: (name: string) => `The password of ${name} stops working, and they choose a new one with the new link.`,
    button: "Make a new link",
  },
  suspend: {
    title: "Suspend this person?",
    hint: (name: string) =>
      `${name} is signed out and gets no questions until you resume them. What they judged stays, and still counts.`,
    button: "Suspend them",
  },
  forget: {
    title: "Forget this person?",
    hint: (name: string) =>
      `Name, password and comments of ${name} are removed for good. What they judged stays, without a name.`,
    button: "Forget them",
  },
};

/** Who works here, and invitations. */
export function PeoplePage({ user }: { user: UserInfo }) {
  const [people, setPeople] = useState<Person[]>([]);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("worker");
  const [vouched, setVouched] = useState(true);
  const [made, setMade] = useState<{ name: string; link: string } | null>(null);
  const [asked, setAsked] = useState<{ person: Person; what: "link" | "forget" | "suspend" } | null>(null);
  const { failure, isBusy, run } = useSubmit();
  const look = () => void run(async () => setPeople(await api.people()));
  useEffect(look, []);

  const invite = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const { link } = await api.invite(name.trim(), role, vouched);
      setMade({ name: name.trim(), link });
      setName("");
      setPeople(await api.people());
    });
  };
  const doAsked = () =>
    void run(async () => {
      if (!asked) return;
      const { person, what } = asked;
      setAsked(null);
      if (what === "forget") await api.forget(person.worker);
      else if (what === "suspend") await api.suspend(person.worker, true);
      else setMade({ name: person.name ?? "", link: (await api.renewInvitation(person.worker)).link });
      setPeople(await api.people());
    });

  return (
    <main class="page" tabIndex={-1}>
      <h1>People</h1>
      <section class="card">
        <form class="edit invite" onSubmit={invite}>
          <h2>Invite somebody</h2>
          <label>
            Name
            <input
              dir="auto"
              required
              maxLength={100}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </label>
          <label>
            Role
            <select value={role} onChange={(event) => setRole(event.currentTarget.value as Role)}>
              {Object.entries(ROLES).map(([value, words]) => (
                <option key={value} value={value}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <label class="check">
            <input type="checkbox" checked={vouched} onChange={(event) => setVouched(event.currentTarget.checked)} />I
            vouch for them: no history elsewhere is asked for
          </label>
          <button class="main" type="submit" disabled={isBusy || !name.trim()}>
            Make a link
          </button>
        </form>
        <Failure line={failure} />
        {made && (
          <div class="made" role="status">
            <p>
              Send this link to <b dir="auto">{made.name}</b>. It works once, and is shown only now.
              {isLocal(made.link) && (
                <>
                  {" "}
                  <b>It opens on the computer that runs the server only.</b> For others, start the server with{" "}
                  <code>--url</code> or <code>--host</code> first.
                </>
              )}
            </p>
            <p class="with-button">
              <input
                readOnly
                value={made.link}
                aria-label="Invitation link"
                onFocus={(event) => event.currentTarget.select()}
              />
              <button onClick={() => void navigator.clipboard?.writeText(made.link)}>Copy</button>
            </p>
          </div>
        )}
      </section>
      <section>
        <div class="wide-table">
          <table class="is-text">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Role</th>
                <th scope="col">State</th>
                <th scope="col">
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {people.map((person) => (
                <tr key={person.worker}>
                  <th scope="row" dir="auto">
                    {person.name ?? <span class="soft">forgotten</span>}
                  </th>
                  <td>{person.role}</td>
                  <td>{stateOf(person)}</td>
                  <td class="row-actions">
                    {!person.forgotten && person.worker !== user.id && (
                      <>
                        {person.role === "worker" && !person.vouched && (
                          <button
                            class="link"
                            onClick={() =>
                              void run(async () => {
                                await api.vouch(person.worker);
                                setPeople(await api.people());
                              })
                            }
                          >
                            Vouch
                          </button>
                        )}{" "}
                        <button class="link" onClick={() => setAsked({ person, what: "link" })}>
                          New link
                        </button>{" "}
                        {person.suspended ? (
                          <button
                            class="link"
                            onClick={() =>
                              void run(async () => {
                                await api.suspend(person.worker, false);
                                setPeople(await api.people());
                              })
                            }
                          >
                            Resume
                          </button>
                        ) : (
                          <button class="link" onClick={() => setAsked({ person, what: "suspend" })}>
                            Suspend
                          </button>
                        )}{" "}
                        <button class="link" onClick={() => setAsked({ person, what: "forget" })}>
                          Forget
                        </button>
                      </>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      {asked && (
        <Dialog title={ASKED[asked.what].title} onClose={() => setAsked(null)}>
          <p class="hint">{ASKED[asked.what].hint(asked.person.name ?? "")}</p>
          <p class="row">
            <button class="main" onClick={doAsked}>
              {ASKED[asked.what].button}
            </button>
            <button onClick={() => setAsked(null)}>Cancel</button>
          </p>
        </Dialog>
      )}
    </main>
  );
}

/** Whether nobody else can open a link. */
const isLocal = (link: string) => ["127.0.0.1", "localhost", "[::1]"].includes(new URL(link, location.href).hostname);

function stateOf(person: Person): string {
  if (person.forgotten) return "forgotten";
  if (person.suspended) return "suspended";
  const joined = person.joined ? "joined" : "invited";
  if (person.claimed) return `${joined}, id not confirmed`;
  return person.role === "worker" && person.vouched ? `${joined}, vouched for` : joined;
}
