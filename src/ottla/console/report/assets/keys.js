/**
 * The keyboard: what each key does, and the list that `?` shows.
 */

export const KEYS = [
  [["ArrowLeft", "ArrowRight"], "\u2190 \u2192", "the rebalance before, after"],
  [["u"], "u", "the next rebalance that was not planned"],
  [["ArrowUp", "ArrowDown"], "\u2191 \u2193", "the member above, below"],
  [["+", "=", "-", "0"], "+ \u2212 0", "zoom in, out, show everything"],
  [["f"], "f", "fold idle time"],
  [["l"], "l", "lag strips"],
  [["/"], "/", "search the table"],
  [["Enter"], "Enter", "zoom to the chosen rebalance"],
  [["Escape"], "Esc", "choose nothing"],
  [["?"], "?", "this list"],
];

/**
 * @param {EventTarget} target
 * @param {() => import("./timeline.js").Timeline | null} current  the timeline that keys act on
 * @param {{help: () => void, search: () => void}} page
 */
export function listen(target, current, page) {
  target.addEventListener("keydown", (event) => {
    const timeline = current();
    if (!timeline || event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "Enter" && /^(BUTTON|A|SUMMARY)$/.test(event.target.tagName ?? "")) return;
    const action = actions(timeline, page)[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function actions(timeline, page) {
  return {
    ArrowLeft: () => timeline.step(-1),
    ArrowRight: () => timeline.step(1),
    u: () => timeline.nextUnplanned(),
    ArrowUp: () => timeline.stepMember(-1),
    ArrowDown: () => timeline.stepMember(1),
    "+": () => timeline.zoom(2 / 3),
    "=": () => timeline.zoom(2 / 3),
    "-": () => timeline.zoom(3 / 2),
    0: () => timeline.showAll(),
    f: () => timeline.toggleFold(),
    l: () => timeline.toggleLag(),
    Enter: () => timeline.zoomToChosen(),
    Escape: () => timeline.choose(null),
    "/": page.search,
    "?": page.help,
  };
}
