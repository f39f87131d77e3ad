// What part of time and of the address space is shown, and how wheel, mouse and keyboard change it.

const ZOOM_PER_KEY = 1.4;
const PAN_PER_KEY = 0.15; // of what is shown
const LEAST_EVENTS = 16; // zoomed in so far that single events can be told apart
const LEAST_BYTES = 4096;
const ZOOM_PER_PIXEL = 1.0015; // of the wheel

/** A stretch of [0, whole], with whole > 0, that can be zoomed and moved, down to `least`. */
export class Range {
  constructor(whole, least) {
    this.whole = whole;
    this.least = Math.min(least, whole);
    this.reset();
  }

  get length() {
    return this.end - this.begin;
  }

  reset() {
    this.begin = 0;
    this.end = this.whole;
  }

  /** Shows `factor` times as much, where what lies at `share` (0 to 1) of the range stays there. */
  zoom(factor, share) {
    const length = Math.min(Math.max(this.length * factor, this.least), this.whole);
    this.moveTo(this.begin + (this.length - length) * share, length);
  }

  /** Moves by a share of what is shown. */
  pan(share) {
    this.moveTo(this.begin + this.length * share, this.length);
  }

  moveTo(begin, length) {
    this.begin = Math.min(Math.max(begin, 0), this.whole - length);
    this.end = this.begin + length;
  }
}

/** Time and addresses together; whoever draws them listens. Several changes before a frame are drawn once. */
export class View {
  constructor(events, extent) {
    this.time = new Range(Math.max(events, 1), LEAST_EVENTS);
    this.space = new Range(Math.max(extent, 1), LEAST_BYTES);
    this.listeners = [];
    this.pending = false;
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  change() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => this.changeNow());
  }

  changeNow() {
    this.pending = false;
    for (const listener of this.listeners) listener();
  }

  setExtent(extent) {
    this.space = new Range(Math.max(extent, 1), LEAST_BYTES);
    this.change();
  }
}

/**
 * Lets wheel, drag, double click and keys on `canvas` change the view; `plot()` says where the drawing lies in it,
 * as {left, top, width, height} in CSS pixels. `usesSpace`: the vertical axis is the address space.
 */
export function control(canvas, view, plot, usesSpace) {
  const shares = (event) => {
    const box = canvas.getBoundingClientRect();
    const {left, top, width, height} = plot();
    return [(event.clientX - box.left - left) / width, 1 - (event.clientY - box.top - top) / height];
  };
  const zoom = (factor, [x, y], event) => {
    if (!event.altKey) view.time.zoom(factor, x);
    if (usesSpace && !event.shiftKey) view.space.zoom(factor, y);
    view.change();
  };
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const pixels = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 30 : 1);
    zoom(ZOOM_PER_PIXEL ** pixels, shares(event), event);
  }, {passive: false});
  canvas.addEventListener('dblclick', () => {
    view.time.reset();
    view.space.reset();
    view.change();
  });
  followDrag(canvas, view, plot, usesSpace);
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || !pressKey(event, view, usesSpace, zoom)) return;
    event.preventDefault();
    view.change();
  });
}

function followDrag(canvas, view, plot, usesSpace) {
  let from = null;
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    from = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!from) return;
    const {width, height} = plot();
    view.time.pan((from[0] - event.clientX) / width);
    if (usesSpace) view.space.pan((event.clientY - from[1]) / height);
    from = [event.clientX, event.clientY];
    view.change();
  });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => (from = null));
}

/** Whether the key means something here. */
function pressKey(event, view, usesSpace, zoom) {
  const middle = [0.5, 0.5];
  switch (event.key) {
    case 'ArrowLeft': view.time.pan(-PAN_PER_KEY); return true;
    case 'ArrowRight': view.time.pan(PAN_PER_KEY); return true;
    case 'ArrowUp': if (usesSpace) view.space.pan(PAN_PER_KEY); return usesSpace;
    case 'ArrowDown': if (usesSpace) view.space.pan(-PAN_PER_KEY); return usesSpace;
    case '+': case '=': zoom(1 / ZOOM_PER_KEY, middle, {altKey: event.altKey}); return true;
    case '-': case '_': zoom(ZOOM_PER_KEY, middle, {altKey: event.altKey}); return true;
    case '0': case 'Home': view.time.reset(); view.space.reset(); return true;
    default: return false;
  }
}
