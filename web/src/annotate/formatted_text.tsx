// Text of an owner: paragraphs and lists, never markup.

/** Blank lines part paragraphs; lines that begin with a dash are a list. */
export function FormattedText({ text }: { text: string }) {
  const blocks = text.split(/\n\s*\n/).filter((block) => block.trim());
  return (
    <>
      {blocks.map((block, place) => (
        <Block key={place} lines={block.trim().split("\n")} />
      ))}
    </>
  );
}

function Block({ lines }: { lines: string[] }) {
  const runs: { isList: boolean; lines: string[] }[] = [];
  for (const line of lines) {
    const isList = line.startsWith("- ");
    const last = runs.at(-1);
    if (last?.isList === isList) last.lines.push(line);
    else runs.push({ isList, lines: [line] });
  }
  return (
    <>
      {runs.map((run, place) =>
        run.isList ? (
          <ul key={place}>
            {run.lines.map((line, each) => (
              <li key={each} dir="auto">
                {line.slice(2)}
              </li>
            ))}
          </ul>
        ) : (
          <p key={place} dir="auto">
            {run.lines.join(" ")}
          </p>
        ),
      )}
    </>
  );
}
