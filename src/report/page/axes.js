// A canvas with axes: time below, bytes at the left.

import {styled} from './colors.js';
import {count, inUnitOf} from './format.js';

const MARGIN = {left: 76, right: 28, top: 20, bottom: 26};
const TICK_DISTANCE = 48; // pixels, at least

/** Multiples of a round number: 1, 2 or 5 times a power of ten, or for bytes a power of two. */
export function ticks(begin, end, most, bytes) {
  const raw = Math.max((end - begin) / Math.max(most, 1), 1);
  let step = 2 ** Math.round(Math.log2(raw));
  if (!bytes) {
    const ten = 10 ** Math.floor(Math.log10(raw));
    step = [1, 2, 5, 10].map((factor) => factor * ten).find((value) => value >= raw);
  }
  const found = [];
  for (let value = Math.ceil(begin / step) * step; value <= end; value += step) found.push(value);
  return found;
}

/** With all digits that it has (0.25 GiB), or two more than it takes to tell ticks apart. */
function sizeTick(value, end, step) {
  const digits = (part) => Math.min(Math.max(-Math.log2(part), 0), Math.max(Math.ceil(-Math.log10(part)), 0) + 2);
  return inUnitOf(end, value, (unit) => digits(step / unit));
}

/** The canvas in the size that it has on the screen; drawing is in CSS pixels. */
export class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
  }

  area() {
    const width = Math.max(this.canvas.clientWidth - MARGIN.left - MARGIN.right, 1);
    const height = Math.max(this.canvas.clientHeight - MARGIN.top - MARGIN.bottom, 1);
    return {left: MARGIN.left, top: MARGIN.top, width, height};
  }

  /** Empties the canvas and gives its context. */
  begin() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio);
    const height = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.ratio = ratio;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    this.context.font = '12px system-ui, sans-serif';
    return this.context;
  }

  /**
   * Axes, and lines where steps begin. `bytes` and `time` are {begin, end}. Lines go across the plot, or are only ticks
   * beside it (`ticksOnly`): across a map they would look like gaps.
   */
  axes(time, bytes, steps, ticksOnly = false) {
    const {left, top, width, height} = this.area();
    const context = this.context;
    context.strokeStyle = styled('grid');
    context.fillStyle = styled('muted');
    context.lineWidth = 1;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    const found = ticks(bytes.begin, bytes.end, height / TICK_DISTANCE, true);
    const step = found.length > 1 ? found[1] - found[0] : bytes.end;
    for (const value of found) {
      const y = Math.round(top + height * (1 - (value - bytes.begin) / (bytes.end - bytes.begin))) + 0.5;
      line(context, left - 4, y, ticksOnly ? left : left + width, y);
      context.fillText(sizeTick(value, bytes.end, step), left - 7, y, left - 9);
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const value of ticks(time.begin, time.end, width / (2.5 * TICK_DISTANCE), false)) {
      const text = count(value);
      const most = this.canvas.clientWidth - context.measureText(text).width / 2;
      const x = left + width * (value - time.begin) / (time.end - time.begin);
      context.fillText(text, Math.min(x, most), top + height + 6);
    }
    this.stepLines(time, steps);
  }

  /** As many of them as there is room for. */
  stepLines(time, steps) {
    const {left, top, width, height} = this.area();
    const context = this.context;
    const x = (value) => left + width * (value - time.begin) / (time.end - time.begin);
    context.strokeStyle = styled('step');
    context.textAlign = 'left';
    context.textBaseline = 'bottom';
    context.setLineDash([3, 3]);
    let lineFree = left;
    let labelFree = left;
    steps.forEach((step, number) => {
      const at = x(step.begin);
      if (at < lineFree || at > left + width) return;
      line(context, at, top, at, top + height);
      lineFree = at + 24;
      if (at < labelFree || at > left + width - 40) return;
      context.fillText(`step ${number + 1}`, at + 2, top - 3);
      labelFree = at + 64;
    });
    context.setLineDash([]);
  }
}

export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
