import { useEffect, useState } from "preact/hooks";
import { useRoute } from "./route";
import * as api from "./api";
import type { Role, SessionResponse } from "./schema";
import { DashboardPage } from "./dashboard";
import { LoginPage } from "./login";
import { ExternalPage } from "./external";
import { GalleryPage } from "./gallery";
import { GuidelinesPage } from "./guidelines";
import { OwnWorkPage } from "./own_work";
import { PeoplePage } from "./people";
import { ReviewPage } from "./review";
import { mayLeave } from "./unsaved";
import { Waiting } from "./waiting";
import { WorkPage } from "./work_page";

const REVIEWS: readonly Role[] = ["reviewer", "owner"];

interface Tab {
  place: string;
  name: string;
  roles?: readonly Role[];
}

const TABS: readonly Tab[] = [
  { place: "", name: "Work" },
  { place: "review", name: "Review", roles: REVIEWS },
  { place: "gallery", name: "Gallery", roles: REVIEWS },
  { place: "dashboard", name: "Dashboard", roles: REVIEWS },
  { place: "people", name: "People", roles: ["owner"] },
  { place: "guidelines", name: "Guidelines" },
];

export function App() {
  if (location.pathname.endsWith("/external")) return <ExternalPage />;
  return <Inside />;
}

function Inside() {
  const [place, go] = useRoute();
  const [session, setSession] = useState<SessionResponse | null>(null);
  const [failure, setFailure] = useState("");
  const [isExpelled, setExpelled] = useState(false);
  const [guidelines, setGuidelines] = useState<api.Guidelines | null>(null);

  const look = () => {
    setFailure("");
    api.session().then(setSession, (error) => setFailure(api.errorMessage(error)));
  };
  useEffect(look, []);
  useEffect(() => {
    if (session?.user) api.guidelines().then(setGuidelines, () => undefined);
  }, [session?.user?.id]);

  const user = session?.user ?? null;
  const tabs = user ? TABS.filter(({ roles }) => !roles || roles.includes(user.role)) : [];
  const isPhrases = place[0] === "phrases" && user?.role === "owner"; // reached from the gallery
  const tab = tabs.find((each) => each.place === (isPhrases ? "gallery" : (place[0] ?? ""))) ?? tabs[0];
  useEffect(() => {
    document.title = `${!user ? "Welcome" : place[0] === "me" ? "You" : (tab?.name ?? "")} – deixis annotate`;
  }, [user, place[0]]);

  // Another page starts at its top, with the keyboard focus there too. On a phone its tab may have to be scrolled to.
  useEffect(() => {
    document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (user) document.querySelector<HTMLElement>("main[tabindex]")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [place[0]]);

  if (failure) return <Said title="The workbench cannot be reached." line={failure} action="Try again" onAct={look} />;
  if (!session) return <Waiting />;
  if (!user || place[0] === "join")
    return (
      <LoginPage
        project={session.project}
        provider={session.oidc}
        token={place[0] === "join" ? (place[1] ?? "") : ""}
        user={user}
        isExpelled={isExpelled}
        onIn={(found) => {
          setExpelled(false);
          const entered = found.projects.find(({ is_in }) => is_in);
          if (!found.user && entered) return location.assign(entered.url);
          go(found.user?.role === "owner" ? "dashboard" : "", "replace");
          setSession(found);
          look(); // with the other projects
        }}
      />
    );

  const leave = async () => {
    if (!mayLeave()) return;
    await api.logout().catch(() => undefined);
    go("", "replace");
    look();
  };

  return (
    <>
      <header class="bar">
        <a class="name" href="#/" aria-label={`deixis annotate, project ${session.project}`}>
          de<span>i</span>xis
        </a>
        <nav class="tabs" aria-label="Pages">
          {tabs.map(({ place: to, name }) => (
            <a key={to} href={`#/${to}`} aria-current={tab?.place === to && place[0] !== "me" ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <span class="who">
          <Projects session={session} />
          <a href="#/me" dir="auto">
            {user.name}
          </a>
          <button class="quiet" onClick={() => void leave()}>
            Sign out
          </button>
        </span>
      </header>
      {place[0] === "me" ? (
        <OwnWorkPage user={user} />
      ) : tab?.place === "review" ? (
        <ReviewPage session={session} />
      ) : tab?.place === "gallery" ? (
        <GalleryPage
          session={session}
          photo={place[1]}
          isPhrases={isPhrases}
          from={{ mention: place[2] ?? "", isDrawing: place[3] === "draw" }}
          onOpen={(photo) => go(`${isPhrases ? "phrases" : "gallery"}/${photo}`)}
        />
      ) : tab?.place === "dashboard" ? (
        <DashboardPage user={user} formats={session.formats} />
      ) : tab?.place === "people" ? (
        <PeoplePage user={user} />
      ) : tab?.place === "guidelines" ? (
        guidelines && (
          <GuidelinesPage guidelines={guidelines} isOwner={user.role === "owner"} answers={session.tasks} onChange={setGuidelines} />
        )
      ) : (
        <WorkPage
          session={session}
          worker={user.id}
          guidelines={guidelines}
          onGuidelines={setGuidelines}
          onSignedOut={() => {
            setExpelled(true);
            look();
          }}
        />
      )}
    </>
  );
}

/** The way to the other projects of the server. */
function Projects({ session: { project, projects } }: { session: SessionResponse }) {
  const entered = projects.filter(({ is_in }) => is_in);
  if (entered.length < 2) return null;
  return (
    <select
      aria-label="Project"
      value={entered.find(({ name }) => name === project)?.url}
      onChange={({ currentTarget }) => mayLeave() && location.assign(currentTarget.value)}
    >
      {entered.map(({ name, url }) => (
        <option key={url} value={url}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function Said(props: { title: string; line?: string; action?: string; onAct?: () => void }) {
  return (
    <main class="notice">
      <h1>{props.title}</h1>
      {props.line && <p>{props.line}</p>}
      {props.action && <button onClick={props.onAct}>{props.action}</button>}
    </main>
  );
}
