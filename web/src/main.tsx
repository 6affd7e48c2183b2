import { render } from "preact";
import { App } from "./app";
import "./fonts.css";
import "./style.css";

render(<App />, document.getElementById("app")!);
