// What choices are compared by, each on an axis: numbers on a logarithmic scale, names side by side.

import {count, gib} from './format.js';

const digits = (value) => count(Number.isInteger(value) ? value : Number(value.toPrecision(3)));

/** What there is to compare: how a choice is measured, and how a value reads. `better`: 'less', 'more' or ''. */
export function measures(priced) {
  const number = (name, of, better = '') => ({name, of, better, text: digits});
  const how = (name, key) => number(name, ({configuration}) => configuration[key]);
  const word = (name, of) => ({name, of, better: '', text: String});
  return [
    number('s/step', (choice) => choice.seconds, 'less'),
    {...number('memory', (choice) => choice.memory, 'less'), text: (bytes) => gib(bytes, 1)},
    number('GPUs', ({configuration}) => configuration.gpus, 'less'),
    number(priced ? 'price/Gtoken' : 'GPU h/Gtoken', (choice) => choice.cost, 'less'),
    number('longer', (choice) => choice.headroom, 'more'),
    how('tp', 'tp'), how('pp', 'pp'), how('vp', 'virtual_stages'), how('cp', 'cp'), how('ep', 'ep'),
    how('mbs', 'micro_batch'), how('ZeRO', 'zero'),
    word('last stage', ({configuration}) => (configuration.short_last ? 'shorter' : 'as the others')),
    word('recompute', ({configuration}) => configuration.recompute),
    word('optimizer', ({configuration}) => (configuration.offload_optimizer ? 'on the host' : 'on the GPU')),
  ];
}

/** A measure over choices, with the range of shares (0 to 1) that is chosen; null for all. */
export class Scale {
  constructor(measure, choices) {
    this.measure = measure;
    this.values = choices.map(measure.of);
    const distinct = [...new Set(this.values)];
    this.isName = typeof distinct[0] === 'string';
    this.distinct = this.isName ? distinct.sort() : distinct.sort((a, b) => a - b);
    this.range = null;
  }

  get varies() {
    return this.distinct.length > 1;
  }

  /** Where a value lies, 0 to 1. */
  shareOf(value) {
    if (!this.varies) return 0.5;
    if (this.isName) return this.distinct.indexOf(value) / (this.distinct.length - 1);
    const [least, most] = [this.distinct[0], this.distinct[this.distinct.length - 1]];
    if (least <= 0) return (value - least) / (most - least);
    return Math.log(value / least) / Math.log(most / least);
  }

  share(index) {
    return this.shareOf(this.values[index]);
  }

  /** Values to write at the axis: all where they are few, else both ends and some between. */
  labels(most) {
    const last = this.distinct.length - 1;
    if (last < most) return this.distinct;
    const labels = [];
    for (let i = 0; i < most; ++i) {
      const wanted = i / (most - 1);
      labels.push(this.distinct.reduce((best, value) =>
        (Math.abs(this.shareOf(value) - wanted) < Math.abs(this.shareOf(best) - wanted) ? value : best)));
    }
    return [...new Set(labels)];
  }

  holds(index) {
    const share = this.share(index);
    return !this.range || (share >= this.range[0] - 1e-9 && share <= this.range[1] + 1e-9);
  }

  /** Chooses what lies between two shares; everything where nothing does. */
  choose(a, b) {
    this.range = [Math.max(Math.min(a, b), 0), Math.min(Math.max(a, b), 1)];
    if (!this.values.some((_, index) => this.holds(index))) this.range = null;
  }

  /** Moves an end (0 the lower, 1 the upper) of what is chosen to the next value. */
  step(end, direction) {
    const range = this.range ?? [0, 1];
    const shares = this.distinct.map((value) => this.shareOf(value));
    const beyond = shares.filter((share) => (share - range[end]) * direction > 1e-9);
    if (beyond.length === 0) return;
    const moved = [...range];
    moved[end] = direction > 0 ? Math.min(...beyond) : Math.max(...beyond);
    if (moved[0] <= moved[1]) this.range = moved;
  }

  /** What is chosen, in words. */
  text() {
    const held = this.distinct.filter((value) => {
      const share = this.shareOf(value);
      return !this.range || (share >= this.range[0] - 1e-9 && share <= this.range[1] + 1e-9);
    }).map(this.measure.text);
    return this.isName ? held.join(', ') : `${held[0]} to ${held[held.length - 1]}`;
  }
}
