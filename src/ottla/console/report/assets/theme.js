/**
 * Colours: read from the custom properties of the page, so that canvas and text share them; packed for pixels where needed.
 */

const NAMES = ["paper", "ink", "faint", "line", "panel", "planned", "unplanned", "unknown", "avoided", "stopped", "silent", "owned", "absent", "lag-low", "lag-middle", "lag-high", "chosen"];
const TOPICS = [[168, 48], [256, 40], [206, 56], [72, 42], [318, 38], [28, 36], [140, 30], [230, 28]];

/**
 * @param {Element} element
 * @returns {{css: Record<string, string>, packed: Record<string, number>, isDark: boolean, lag: Uint32Array}}
 */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const css = {};
  const packed = {};
  for (const name of NAMES) {
    css[name] = style.getPropertyValue(`--${name}`).trim();
    packed[name] = pack(parse(css[name]));
  }
  const [red, green, blue] = parse(css.paper);
  const stops = ["lag-low", "lag-middle", "lag-high"].map((name) => parse(css[name]));
  const lag = new Uint32Array(256);
  for (let at = 0; at < 256; at++) {
    const share = at / 255;
    lag[at] = pack(share < 0.6 ? mix(stops[0], stops[1], share / 0.6) : mix(stops[1], stops[2], (share - 0.6) / 0.4));
  }
  return { css, packed, isDark: red + green + blue < 384, lag };
}

/** The colour of each partition: a hue a topic, a shade a partition; with one topic the hue runs through its partitions. */
export function partitionColours(own, topicCount, isDark) {
  const counts = new Array(topicCount).fill(0);
  const totals = new Array(topicCount).fill(0);
  for (const topic of own.topicOf) totals[topic]++;
  return Uint32Array.from(own.topicOf, (topic) => {
    const number = counts[topic]++;
    const share = totals[topic] > 1 ? number / (totals[topic] - 1) : 0;
    const [hue, saturation] = topicCount === 1 ? [165 + share * 165, 38] : TOPICS[topic % TOPICS.length];
    const light = (isDark ? 40 : 52) + (number % 3) * 7 + (topicCount === 1 ? 0 : share * 6);
    return pack(fromHsl(hue, saturation, light));
  });
}

/** A topic's colour for the legend. */
export function topicColour(topic, isDark) {
  const [hue, saturation] = TOPICS[topic % TOPICS.length];
  return `hsl(${hue} ${saturation}% ${isDark ? 47 : 58}%)`;
}

/** The pixel of a share between two packed colours. */
export function blend(under, over, share) {
  const keep = 256 - Math.round(share * 256);
  const take = 256 - keep;
  const redBlue = (((under & 0xff00ff) * keep + (over & 0xff00ff) * take) >>> 8) & 0xff00ff;
  const green = (((under & 0x00ff00) * keep + (over & 0x00ff00) * take) >>> 8) & 0x00ff00;
  return (0xff000000 | redBlue | green) >>> 0;
}

function parse(text) {
  const digits = text.replace("#", "");
  const long = digits.length === 3 ? [...digits].map((each) => each + each).join("") : digits;
  const value = parseInt(long, 16) || 0;
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function pack([red, green, blue]) {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}

function mix(from, to, share) {
  return from.map((value, at) => value + (to[at] - value) * share);
}

function fromHsl(hue, saturation, light) {
  const s = saturation / 100;
  const l = light / 100;
  const a = s * Math.min(l, 1 - l);
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    return 255 * (l - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  };
  return [channel(0), channel(8), channel(4)];
}
