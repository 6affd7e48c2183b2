import { render } from "preact";
import { App } from "./app";
import "../fonts.css";
import "../style.css";
import "./annotate.css";
import "./work.css";
import "./lesson.css";
import "./pages.css";
import "./screens.css";

render(<App />, document.getElementById("app")!);
