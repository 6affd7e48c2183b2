/** Said only after a moment, so that it does not flash where the server is near. The page without its script says the same. */
export const Waiting = () => <p class="notice is-waiting">One moment …</p>;
