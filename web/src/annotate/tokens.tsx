import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import type { ApiToken } from "./schema";
import { Failure, useSubmit } from "./login";

/** One's own API tokens, with which programs act as oneself. */
export function Tokens() {
  const [tokens, setTokens] = useState<ApiToken[]>([]);
  const [name, setName] = useState("");
  const [made, setMade] = useState("");
  const { failure, isBusy, run } = useSubmit();
  useEffect(() => {
    api.tokens().then(setTokens, () => undefined);
  }, []);
  return (
    <section class="card">
      <form
        class="edit"
        onSubmit={(event) => {
          event.preventDefault();
          void run(async () => {
            setMade((await api.makeToken(name.trim())).token);
            setName("");
            setTokens(await api.tokens());
          });
        }}
      >
        <h2>API tokens</h2>
        <p class="hint">A program that has one does what you may do. Each works for a year.</p>
        <label>
          What is it for?
          <input dir="auto" maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <Failure line={failure} />
        <p class="row">
          <button type="submit" disabled={isBusy || !name.trim()}>
            Make a token
          </button>
        </p>
      </form>
      {made && (
        <div class="made" role="status">
          <p>Copy it now. It is not shown again.</p>
          <p class="with-button">
            <input readOnly value={made} aria-label="API token" onFocus={(event) => event.currentTarget.select()} />
            <button onClick={() => void navigator.clipboard?.writeText(made)}>Copy</button>
          </p>
        </div>
      )}
      {tokens.length > 0 && (
        <ul class="tokens">
          {tokens.map((token) => (
            <li key={token.id}>
              <span dir="auto">{token.name}</span>{" "}
              <span class="soft">until {new Date(1000 * token.until).toLocaleDateString("en")}</span>{" "}
              <button
                class="link"
                aria-label={`Revoke ${token.name}`}
                onClick={() =>
                  void run(async () => {
                    await api.revokeToken(token.id);
                    setTokens(await api.tokens());
                  })
                }
              >
                Revoke
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
