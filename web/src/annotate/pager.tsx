/** Buttons to the parts before and after, if a list has more than one. */
export function Pager(props: { offset: number; page: number; total: number; onChange: (offset: number) => void }) {
  const { offset, page, total, onChange } = props;
  if (total <= page) {
    return null;
  }
  return (
    <p class="row">
      <button disabled={offset === 0} onClick={() => onChange(Math.max(0, offset - page))}>
        ← Back
      </button>
      <span>
        {offset + 1}–{Math.min(offset + page, total)} of {total.toLocaleString("en")}
      </span>
      <button disabled={offset + page >= total} onClick={() => onChange(offset + page)}>
        On →
      </button>
    </p>
  );
}
