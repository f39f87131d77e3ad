// Numbers and elements as people read them. Texts become text nodes and nothing else, so that none of them is ever
// read as HTML, whatever a trace says.

const GIB = 2 ** 30;
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** In GiB, as everywhere; what would read 0.00 or 0.01 in its own unit. */
export function gib(bytes, digits = 2) {
  if (Math.abs(bytes) < 0.1 * GIB) return size(bytes);
  return (bytes / GIB).toFixed(digits) + '\u00a0GiB';
}

/** Bytes in the unit that suits `largest`, with `digits(bytes of a unit)` after the point. */
export function inUnitOf(largest, bytes, digits) {
  const power = Math.min(Math.max(Math.floor(Math.log2(Math.max(largest, 1)) / 10), 0), UNITS.length - 1);
  return (bytes / 2 ** (10 * power)).toFixed(digits(2 ** (10 * power))) + ' ' + UNITS[power];
}

/** Bytes in the largest unit of which there is at least one. */
export function size(bytes) {
  let unit = 0;
  let amount = bytes;
  for (; Math.abs(amount) >= 1024 && unit < UNITS.length - 1; ++unit) amount /= 1024;
  return (unit === 0 || Number.isInteger(amount) ? String(amount) : amount.toFixed(amount < 10 ? 2 : 1)) +
      '\u00a0' + UNITS[unit];
}

/** Bytes in the largest unit of which they are a whole number: different sizes read differently. */
export function exactSize(bytes) {
  let unit = 0;
  let amount = bytes;
  for (; amount > 0 && amount % 1024 === 0 && unit < UNITS.length - 1; ++unit) amount /= 1024;
  return count(amount) + '\u00a0' + UNITS[unit];
}

export function count(number) {
  return number.toLocaleString('en');
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}

export function percent(share, digits = 1) {
  return (100 * share).toFixed(digits) + '\u00a0%';
}

/** An element with attributes and children (nodes or texts). */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
