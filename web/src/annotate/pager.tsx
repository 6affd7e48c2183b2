/** Buttons to the parts before and after, and a field to jump to a number, if a list has more than one part. */
export function Pager(props: { offset: number; page: number; total: number; onChange: (offset: number) => void }) {
  const { offset, page, total, onChange } = props;
  if (total <= page && offset === 0) {
    return null;
  }
  const jump = (event: SubmitEvent) => {
    event.preventDefault();
    const wanted = Number(new FormData(event.currentTarget as HTMLFormElement).get("number"));
    if (wanted) onChange(Math.min(Math.max(wanted, 1), total) - 1);
  };
  return (
    <form class="row pager" aria-label="Pages" onSubmit={jump}>
      <button type="button" disabled={offset === 0} onClick={() => onChange(Math.max(0, offset - page))}>
        ← Back
      </button>
      <span>
        {(offset + 1).toLocaleString("en")}–{Math.min(offset + page, total).toLocaleString("en")} of {total.toLocaleString("en")}
      </span>
      <button type="button" disabled={offset + page >= total} onClick={() => onChange(offset + page)}>
        On →
      </button>
      <label>
        Go to photo <input name="number" type="number" min={1} max={total} required />
      </label>
      <button type="submit">Go</button>
    </form>
  );
}
