// The address space over time: every drawn request a rectangle, from its birth to its death, at its addresses.
//
// Rectangles are written into the pixels themselves: a canvas takes a third of a second for 300 thousand of its own,
// this takes some milliseconds. Level of detail: large ones come first, and one that is smaller than a pixel shows only
// where nothing else does.

import {Plot} from './axes.js';
import {CATEGORIES, CLASS_NAMES, css, pixel, ramp, rgb, styled} from './colors.js';
import {lastAtMost} from './data.js';
import {count, counted, size} from './format.js';
import {control} from './view.js';

export const COLORINGS = ['class', 'size', 'phase', 'stream', 'age'];

// Sizes are below 2^53 bytes and lives below 2^32 events.
const HIGHEST_RANK = 85;

/** The numbers of the blocks, those that occupy the most first (to a factor of two). */
function largestFirst(columns) {
  const {size: sizes, life} = columns;
  const rank = (i) => Math.max(Math.floor(Math.log2(sizes[i] * Math.max(life[i], 1))), 0);
  const starts = new Uint32Array(HIGHEST_RANK + 1);
  for (let i = 0; i < sizes.length; ++i) ++starts[HIGHEST_RANK - rank(i)];
  let sum = 0;
  for (let k = 0; k < starts.length; ++k) {
    const here = starts[k];
    starts[k] = sum;
    sum += here;
  }
  const order = new Uint32Array(sizes.length);
  for (let i = 0; i < sizes.length; ++i) order[starts[HIGHEST_RANK - rank(i)]++] = i;
  return order;
}

/** The number of the phase in its step, and of how many: {index, of}. `steps` are the events at which they begin. */
function phaseInStep(phases, steps, time) {
  const phase = lastAtMost(phases, time);
  const step = lastAtMost(steps, time);
  const begin = step < 0 ? 0 : lastAtMost(phases, steps[step]);
  const end = step + 1 < steps.length ? lastAtMost(phases, steps[step + 1]) : phases.length;
  return {index: phase - Math.max(begin, 0), of: Math.max(end - begin, 1)};
}

/** A scale from the least to the most of positive numbers, in equal factors. */
function logScale(numbers, unit) {
  let least = Infinity;
  let most = 1;
  for (const number of numbers) {
    least = Math.min(least, Math.max(number, 1));
    most = Math.max(most, number);
  }
  least = Math.min(least, most);
  const span = Math.max(Math.log(most / least), 1e-9);
  const legend = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    [css(ramp(share)), unit(Math.round(least * Math.exp(span * share)))]);
  return {color: (number) => ramp(Math.log(Math.max(number, 1) / least) / span), legend};
}

/** How blocks are coloured: {pixels: one per block, legend: [[css colour, text]...]}. */
function coloring(kind, job, columns) {
  const pixels = new Uint32Array(columns.size.length);
  const categories = (numbers, names) => {
    const colors = CATEGORIES.map(rgb);
    const last = colors.length - 1;
    for (let i = 0; i < pixels.length; ++i) pixels[i] = pixel(colors[Math.min(numbers[i], last)]);
    const entries = names.slice(0, colors.length).map((name, i) => [CATEGORIES[i], name]);
    if (names.length > colors.length) entries[last][1] += ` and ${count(names.length - colors.length)} more`;
    return entries;
  };
  const scale = (numbers, unit) => {
    const {color, legend} = logScale(numbers, unit);
    for (let i = 0; i < pixels.length; ++i) pixels[i] = pixel(color(numbers[i]));
    return legend;
  };
  if (kind === 'size') return {pixels, legend: scale(columns.size, size)};
  if (kind === 'age') return {pixels, legend: scale(columns.life, (events) => 'lives ' + counted(events, 'event'))};
  if (kind === 'stream') {
    return {pixels, legend: categories(columns.stream, job.streams.map((name) => 'stream ' + name))};
  }
  if (kind === 'phase') return {pixels, legend: phaseColors(pixels, job, columns)};
  return {pixels, legend: categories(columns.class, CLASS_NAMES)};
}

/** By the phase of birth, from the first to the last of its step. */
function phaseColors(pixels, job, columns) {
  const steps = job.steps.map((step) => step.begin);
  const shares = job.phases.map((begin) => {
    const {index, of} = phaseInStep(job.phases, steps, begin);
    return pixel(ramp(index / Math.max(of - 1, 1)));
  });
  let phase = 0; // births ascend
  for (let i = 0; i < pixels.length; ++i) {
    while (phase + 1 < job.phases.length && job.phases[phase + 1] <= columns.birth[i]) ++phase;
    pixels[i] = shares[phase];
  }
  return [[css(ramp(0)), 'born in the first phase of its step'], [css(ramp(0.5)), '...'],
    [css(ramp(1)), 'in the last']];
}

// Neighbours of one colour are told apart by its lightness.
const SHADES = [1, 0.88, 0.94, 0.82];

function shade(word, factor) {
  return pixel([0, 8, 16].map((shift) => Math.round(((word >>> shift) & 255) * factor)));
}

/** Writes rectangles into an image. */
export class Raster {
  constructor(columns) {
    this.columns = columns;
    this.order = largestFirst(columns);
    this.image = null;
  }

  resize(width, height) {
    if (this.image && this.image.width === width && this.image.height === height) return;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** All blocks with an offset, in what is shown of time and space; gives the image. */
  draw(time, space, offsets, colors, background) {
    const {birth, life, size: sizes} = this.columns;
    const {width, height} = this.image;
    const pixels = this.pixels;
    const perEvent = width / time.length;
    const perByte = height / space.length;
    pixels.fill(background);
    for (const i of this.order) {
      const x0 = (birth[i] - time.begin) * perEvent;
      const x1 = x0 + life[i] * perEvent;
      if (x1 <= 0 || x0 >= width || offsets[i] === 0) continue;
      const y1 = height - (offsets[i] - 1 - space.begin) * perByte;
      const y0 = y1 - sizes[i] * perByte;
      if (y1 <= 0 || y0 >= height) continue;
      let left = Math.max(Math.round(x0), 0);
      let right = Math.min(Math.round(x1), width);
      let top = Math.max(Math.round(y0), 0);
      let bottom = Math.min(Math.round(y1), height);
      const small = left >= right || top >= bottom;
      if (left >= right) right = (left = Math.min(Math.max(Math.floor(x0), 0), width - 1)) + 1;
      if (top >= bottom) bottom = (top = Math.min(Math.max(Math.floor(y0), 0), height - 1)) + 1;
      if (small) {
        this.fillEmpty(left, right, top, bottom, colors[i], background);
        continue;
      }
      for (let row = top * width; row < bottom * width; row += width) pixels.fill(colors[i], row + left, row + right);
    }
    return this.image;
  }

  fillEmpty(left, right, top, bottom, color, background) {
    const {width} = this.image;
    for (let row = top * width; row < bottom * width; row += width) {
      for (let at = row + left; at < row + right; ++at) {
        if (this.pixels[at] === background) this.pixels[at] = color;
      }
    }
  }
}

/** What there is to say of block `i`: an array of lines. `steps` are the events at which they begin. */
function explain(job, steps, columns, offsets, i) {
  const birth = columns.birth[i];
  const death = birth + columns.life[i];
  const step = lastAtMost(steps, birth);
  const phase = lastAtMost(job.phases, birth);
  const mark = job.marks[columns.mark[i]];
  const lines = [
    `request ${count(columns.id[i])}: ${size(columns.size[i])} (${count(columns.size[i])} bytes)`,
    `born at event ${count(birth)}, ${death >= job.events ? 'never freed' : `freed at ${count(death)}`}`,
    `${CLASS_NAMES[columns.class[i]]}, ${step < 0 ? 'before the first step' : `step ${step + 1}`}, phase ${phase + 1}`,
    `stream ${job.streams[columns.stream[i]]}, address ${size(offsets[i] - 1)} in this map`,
  ];
  if (mark) lines.push(`after the mark: ${mark}`);
  if (job.sites[columns.site[i]]) lines.push(job.sites[columns.site[i]]);
  return lines;
}

/** The map on `canvas`. `show` is what is shown: {offsets, kind}, to be changed by its own methods. */
export class AddressMap {
  constructor(canvas, columns, job, view, onPoint, onLegend) {
    Object.assign(this, {canvas, columns, job, view, onPoint, onLegend});
    this.plot = new Plot(canvas);
    this.raster = new Raster(columns);
    this.steps = job.steps.map((step) => step.begin);
    control(canvas, view, () => this.plot.area(), true);
    view.onChange(() => this.draw());
    canvas.addEventListener('pointermove', (event) => this.point(event));
    canvas.addEventListener('pointerup', (event) => this.point(event));
    canvas.addEventListener('pointerleave', (event) => {
      if (event.pointerType !== 'touch') this.mark(-1); // a finger leaves with its tap
    });
    canvas.addEventListener('keyup', () => this.explainMiddle());
    canvas.addEventListener('blur', () => this.mark(-1));
    this.marked = -1;
  }

  color(kind) {
    const {pixels, legend} = coloring(kind, this.job, this.columns);
    this.pixels = pixels.map((word, i) => shade(word, SHADES[this.columns.id[i] % SHADES.length]));
    this.onLegend(legend);
  }

  place(offsets) {
    this.mark(-1); // what it says of an address holds for one allocator
    this.offsets = offsets;
  }

  draw() {
    const context = this.plot.begin();
    const {time, space} = this.view;
    const {left, top, width, height} = this.plot.area();
    const ratio = this.plot.ratio;
    this.raster.resize(Math.max(Math.round(width * ratio), 1), Math.max(Math.round(height * ratio), 1));
    const background = pixel(rgb(styled('canvas')));
    const image = this.raster.draw(time, space, this.offsets, this.pixels, background);
    context.putImageData(image, Math.round(left * ratio), Math.round(top * ratio));
    this.plot.axes(time, space, this.job.steps, true);
    this.outline(context);
  }

  /** A frame round the block that is explained. */
  outline(context) {
    if (this.marked < 0) return;
    const {left, top, width, height} = this.plot.area();
    const {time, space} = this.view;
    const {birth, life, size: sizes} = this.columns;
    const i = this.marked;
    const x = (value) => left + width * Math.min(Math.max((value - time.begin) / time.length, 0), 1);
    const y = (value) => top + height * (1 - Math.min(Math.max((value - space.begin) / space.length, 0), 1));
    const low = this.offsets[i] - 1;
    context.strokeStyle = styled('text');
    context.lineWidth = 2;
    context.strokeRect(x(birth[i]), y(low + sizes[i]), x(birth[i] + life[i]) - x(birth[i]), y(low) - y(low + sizes[i]));
  }

  /** The block at an event and an address; -1 if there is none. */
  blockAt(time, address) {
    const {birth, life, size: sizes} = this.columns;
    const end = lastAtMost(birth, time);
    for (let i = end; i >= 0; --i) {
      if (birth[i] + life[i] <= time || this.offsets[i] === 0) continue;
      const low = this.offsets[i] - 1;
      if (low <= address && address < low + sizes[i]) return i;
    }
    return -1;
  }

  mark(i, event) {
    if (i !== this.marked) {
      this.marked = i;
      this.view.change();
    }
    this.onPoint(i < 0 ? null : explain(this.job, this.steps, this.columns, this.offsets, i), event);
  }

  point(event) {
    if (event.buttons) return this.onPoint(null);
    const box = this.canvas.getBoundingClientRect();
    const {left, top, width, height} = this.plot.area();
    const x = (event.clientX - box.left - left) / width;
    const y = 1 - (event.clientY - box.top - top) / height;
    if (x < 0 || x > 1 || y < 0 || y > 1) return this.mark(-1);
    const {time, space} = this.view;
    this.mark(this.blockAt(time.begin + x * time.length, space.begin + y * space.length), event);
  }

  /** For those who use the keyboard: what lies in the middle. */
  explainMiddle() {
    const {time, space} = this.view;
    this.mark(this.blockAt((time.begin + time.end) / 2, (space.begin + space.end) / 2));
  }
}
