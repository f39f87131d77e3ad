// Memory over time: what was asked for, and what each allocator reserved.

import {Plot} from './axes.js';
import {ALLOCATORS, ALLOCATOR_NAMES, styled} from './colors.js';
import {largestOf, lastAtMost} from './data.js';
import {count, gib} from './format.js';
import {control} from './view.js';

const HEADROOM = 1.04; // above the highest point

/** The step functions of a job: {name, color (a variable of the style sheet), times, bytes, shown}. */
export function curvesOf(columns) {
  const curve = (key, name) =>
    ({name, color: key, times: columns[key + '_time'], bytes: columns[key + '_bytes'], shown: true});
  return [curve('requested', 'asked for'), ...ALLOCATORS.map((key, i) => curve(key, ALLOCATOR_NAMES[i]))];
}

/** The highest point of all curves; 1 at least. */
export function highestOf(curves) {
  return largestOf(curves.map((curve) => largestOf(curve.bytes)));
}

/**
 * Traces a step function through the plot. Points that fall on one column of pixels become its first, lowest, highest
 * and last, so a line costs what its columns cost.
 */
function trace(path, curve, x, y, begin, end) {
  const {times, bytes} = curve;
  let i = Math.max(lastAtMost(times, begin), 0);
  path.moveTo(x(Math.max(times[i], begin)), y(bytes[i]));
  let last = bytes[i];
  for (++i; i < times.length && times[i] <= end;) {
    const column = Math.floor(x(times[i]));
    let low = last;
    let high = last;
    const at = x(times[i]);
    path.lineTo(at, y(last));
    for (; i < times.length && times[i] <= end && Math.floor(x(times[i])) === column; ++i) {
      last = bytes[i];
      low = Math.min(low, last);
      high = Math.max(high, last);
    }
    path.lineTo(at, y(high));
    path.lineTo(at, y(low));
    path.lineTo(at, y(last));
  }
  path.lineTo(x(end), y(last));
}

/**
 * Draws the curves on `canvas` whenever the view changes, up to `highest` bytes, with lines where `steps` begin.
 * `onPoint(lines, event)` is told what lies under the pointer.
 */
export function drawCurves(canvas, curves, {steps, highest}, view, onPoint) {
  const plot = new Plot(canvas);
  const bytes = {begin: 0, end: highest * HEADROOM};
  const draw = () => {
    const context = plot.begin();
    const {begin, end} = view.time;
    plot.axes({begin, end}, bytes, steps);
    const {left, top, width, height} = plot.area();
    const x = (time) => left + width * (time - begin) / (end - begin);
    const y = (value) => top + height * (1 - value / bytes.end);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    curves.forEach((curve, number) => {
      if (!curve.shown || curve.times.length === 0) return;
      const path = new Path2D();
      trace(path, curve, x, y, begin, end);
      if (number === 0) fillBelow(context, path, x(begin), x(end), y(0));
      context.strokeStyle = styled(curve.color);
      context.lineWidth = 1.5;
      context.stroke(path);
    });
    context.restore();
  };
  control(canvas, view, () => plot.area(), false);
  view.onChange(draw);
  canvas.addEventListener('pointermove', (event) => {
    const {left, width} = plot.area();
    const share = (event.clientX - canvas.getBoundingClientRect().left - left) / width;
    if (share < 0 || share > 1) return onPoint(null);
    const time = Math.min(Math.floor(view.time.begin + share * view.time.length), view.time.whole - 1);
    onPoint([`event ${count(time)}`, ...curves.filter((curve) => curve.shown).map((curve) => {
      const at = lastAtMost(curve.times, time);
      return `${curve.name}: ${gib(at < 0 ? 0 : curve.bytes[at])}`;
    })], event);
  });
  canvas.addEventListener('pointerleave', () => onPoint(null));
  return draw;
}

/** Fills what lies below `path`, which runs from `left` to `right`. */
function fillBelow(context, path, left, right, bottom) {
  const area = new Path2D(path);
  area.lineTo(right, bottom);
  area.lineTo(left, bottom);
  context.fillStyle = styled('requested-fill');
  context.fill(area);
}
