// Colours: those of the style sheet, and scales for blocks.

export const ALLOCATORS = ['native', 'expandable', 'stweaver'];
export const ALLOCATOR_NAMES = ['PyTorch default', 'expandable segments', 'STWeaver'];
export const CLASS_NAMES = ['persistent', 'scoped', 'transient'];

/** The value of a variable of the style sheet, as it is now: light, dark or printed. */
export function styled(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

// Eight colours that most people tell apart (Okabe and Ito, 2008).
export const CATEGORIES = ['#0072b2', '#e69f00', '#cc79a7', '#009e73', '#56b4e9', '#d55e00', '#8c8c8c', '#b8ad00'];

// From little to much, evenly rising in lightness: "viridis" (Smith and van der Walt, 2015) without its ends, which
// are as dark and as light as what lies behind.
const RAMP = [[65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [189, 223, 38]];

/** The colour of `share`, 0 to 1, as [red, green, blue]. */
export function ramp(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[low].map((value, i) => Math.round(value + (RAMP[low + 1][i] - value) * (place - low)));
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/** A pixel of ImageData seen as 32-bit words (little-endian, as every browser's machine is). */
export function pixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
