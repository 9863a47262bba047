/**
 * Draws the rebalances themselves: the overview of the whole history, the row of bars, and their labels.
 */

const NEAR = 26;
const BAR_MIN = 2;
const LINE_GAP = 8;
export const RANK = { unplanned: 3, unknown: 2, planned: 1, avoided: 0 };

/** The whole history as a histogram, with the view framed. */
export function drawOverview(context, { story, folding, scale, full, theme, y, height, left, width }) {
  const { css } = theme;
  context.fillStyle = css.panel;
  context.fillRect(left, y, width, height);
  const bins = Math.min(240, Math.floor(width / 4));
  const counts = Array.from({ length: bins }, () => ({ unplanned: 0, unknown: 0, planned: 0, avoided: 0 }));
  story.rebalances.started_ms.forEach((ms, at) => {
    const share = (folding.fold(ms) - full.from) / (full.to - full.from);
    counts[Math.max(0, Math.min(bins - 1, Math.floor(share * bins)))][story.verdicts[at]]++;
  });
  const most = Math.max(4, ...counts.map((each) => each.unplanned + each.unknown + each.planned + each.avoided));
  counts.forEach((each, at) => {
    let base = y + height;
    for (const verdict of ["planned", "unknown", "unplanned", "avoided"]) {
      const size = (each[verdict] / most) * (height - 2);
      context.fillStyle = css[verdict];
      context.fillRect(left + (at / bins) * width, base - size, Math.max(1, width / bins - 1), size);
      base -= size;
    }
  });
  const x0 = left + ((scale.view.from - full.from) / (full.to - full.from)) * width;
  const x1 = left + ((scale.view.to - full.from) / (full.to - full.from)) * width;
  context.fillStyle = css.paper;
  context.globalAlpha = 0.6;
  context.fillRect(left, y, x0 - left, height);
  context.fillRect(x1, y, left + width - x1, height);
  context.globalAlpha = 1;
  context.strokeStyle = css.faint;
  context.lineWidth = 1.5;
  context.strokeRect(x0 + 0.5, y + 0.5, Math.max(3, x1 - x0 - 1), height - 1);
}

/** The bars: light while members join, dark while the assignment is made; dashed if no assignment came of it. */
export function drawBars(context, { story, scale, theme, y, height }) {
  const { started_ms, join_ms, sync_ms, outcome } = story.rebalances;
  const right = scale.left + scale.width;
  for (let at = 0; at < started_ms.length; at++) {
    const x0 = scale.x(started_ms[at]);
    const ended = story.ended_ms[at];
    const x2 = Math.max(x0 + BAR_MIN, scale.x(ended));
    if (x2 < scale.left || x0 > right) continue;
    const x1 = scale.x(started_ms[at] + (join_ms[at] ?? 0));
    const from = Math.max(scale.left, x0);
    const to = Math.min(right, x2);
    context.fillStyle = theme.css[story.verdicts[at]];
    context.globalAlpha = to - from > 4 ? 0.45 : 0.9;
    context.fillRect(from, y, to - from, height);
    context.globalAlpha = 1;
    if (to - from > 4) context.fillRect(Math.max(from, x1), y, Math.max(1, to - Math.max(from, x1)), height);
    if (to - from > 4 && outcome[at] !== "completed" && outcome[at] !== "emptied" && sync_ms[at] === null) {
      context.strokeStyle = theme.css[story.verdicts[at]];
      context.setLineDash([3, 3]);
      context.strokeRect(from + 0.5, y + 0.5, to - from - 1, height - 1);
      context.setLineDash([]);
    }
  }
}

/** Rebalances that are too near for labels of their own, together: their number, and the worst verdict. */
export function clusters(story, scale) {
  const found = [];
  const { started_ms } = story.rebalances;
  for (let at = 0; at < started_ms.length; at++) {
    const x = scale.x(started_ms[at]);
    if (x < scale.left - NEAR || x > scale.left + scale.width) continue;
    const last = found[found.length - 1];
    if (last && x - last.x1 < NEAR) {
      last.items.push(at);
      last.x1 = x;
    } else {
      found.push({ x0: x, x1: x, items: [at] });
    }
  }
  return found;
}

/** Labels over the bars: glyph, and the cause with its member where there is room; a number for a cluster. */
export function drawLabels(context, { story, scale, theme, y }) {
  const { cause, glyph, member_name } = story.rebalances;
  const found = clusters(story, scale);
  const right = scale.left + scale.width;
  context.font = "600 11px system-ui, sans-serif";
  let reached = scale.left - 8;
  found.forEach(({ x0, x1, items }, number) => {
    const worst = items.reduce((a, b) => (RANK[story.verdicts[b]] > RANK[story.verdicts[a]] ? b : a));
    const end = number + 1 < found.length ? found[number + 1].x0 - 6 : right;
    const texts =
      items.length > 1
        ? [`${glyph[worst]} ${items.length}`]
        : [`${glyph[worst]} ${cause[worst]} ${member_name[worst] ?? ""}`.trim(), `${glyph[worst]} ${cause[worst]}`, glyph[worst]];
    const start = items.length > 1 ? null : x0 - 3;
    context.fillStyle = theme.css[story.verdicts[worst]];
    context.textAlign = "left";
    for (const text of texts) {
      const width = context.measureText(text).width;
      const left = Math.max(scale.left, Math.min(right - width, start ?? (x0 + x1) / 2 - width / 2));
      if (left < reached || (items.length === 1 && left + width > end && text !== texts[texts.length - 1])) continue;
      context.fillText(text, left, y);
      reached = left + width + 6;
      return;
    }
  });
}

/** Rebalances as faint lines through what lies below, a line every few pixels at most. */
export function drawLines(context, { story, scale, theme, y, bottom }) {
  const columns = new Map();
  story.rebalances.started_ms.forEach((ms, at) => {
    const x = Math.round(scale.x(ms) / LINE_GAP) * LINE_GAP;
    if (x < scale.left || x > scale.left + scale.width) return;
    const verdict = story.verdicts[at];
    if (!columns.has(x) || RANK[verdict] > RANK[columns.get(x)]) columns.set(x, verdict);
  });
  context.globalAlpha = 0.4;
  for (const [x, verdict] of columns) {
    context.fillStyle = theme.css[verdict];
    context.fillRect(x, y, 1, bottom - y);
  }
  context.globalAlpha = 1;
}

/** Brackets over the bursts that are deployments. */
export function drawBursts(context, { story, scale, theme, y }) {
  const right = scale.left + scale.width;
  context.font = "11px system-ui, sans-serif";
  let reached = -Infinity;
  for (const burst of story.bursts) {
    const x0 = Math.max(scale.left, scale.x(burst.from_ms));
    const x1 = Math.min(right, scale.x(burst.to_ms));
    if (x1 < scale.left || x0 > right || !burst.is_deployment) continue;
    context.fillStyle = theme.css.planned;
    context.fillRect(x0, y + 3, Math.max(2, x1 - x0), 2);
    const text = "rolling deployment";
    const width = context.measureText(text).width;
    const left = Math.max(scale.left, Math.min(right - width, (x0 + x1 - width) / 2));
    if (left < reached) continue;
    context.textAlign = "left";
    context.fillText(text, left, y);
    reached = left + width + 8;
  }
}
