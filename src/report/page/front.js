// The page of `advise`: the front in parallel coordinates and as a scatter, and one choice at a time.

import {ALLOCATOR_NAMES} from './colors.js';
import {drawCurves, highestOf} from './curves.js';
import {unpack} from './data.js';
import {count, counted, element, gib} from './format.js';
import {button, choice, Explanation, present, redrawOn, section, svg, table, TIME_KEYS, zoomButtons} from './parts.js';
import {measures, Scale} from './scales.js';
import {View} from './view.js';

const AXIS = {top: 34, bottom: 20, height: 330, distance: 104, reach: 16};
const SCATTER = {left: 84, right: 24, top: 20, bottom: 44, height: 360};
const DOT = 4.5;  // a choice's radius
const CLICK = 5; // pixels that a hand shakes
const FRAMEWORKS = [['megatron', 'Megatron-LM'], ['torchtitan', 'torchtitan'], ['deepspeed', 'DeepSpeed']];

function nameOf(choice) {
  return choice.number ? String(choice.number) : '\u2013';
}

function lineOf(choice) {
  const {gpus, micro_batch} = choice.configuration;
  return `${counted(gpus, 'GPU')}, ${choice.layout}, micro-batch ${micro_batch}, recompute ${choice.recompute}` +
    (choice.configuration.offload_optimizer ? ', optimizer on the host' : '');
}

/** What is brushed and what is chosen; whoever shows it listens. */
class Front {
  constructor(facts) {
    this.choices = facts.choices;
    this.scales = measures(facts.priced).map((measure) => new Scale(measure, this.choices));
    this.chosen = 0;
    this.listeners = [];
  }

  isKept(index) {
    return this.scales.every((scale) => scale.holds(index));
  }

  get kept() {
    return this.choices.map((_, index) => index).filter((index) => this.isKept(index));
  }

  choose(index) {
    this.chosen = index;
    this.tell();
  }

  showAll() {
    for (const scale of this.scales) scale.range = null;
    this.tell();
  }

  tell() {
    for (const listener of this.listeners) listener();
  }
}

/** The shape that stands for a choice, kept in step with what is brushed and chosen. */
function mark(front, index, explanation, ...shapes) {
  const group = svg('g', {class: 'choice'}, ...shapes);
  group.addEventListener('click', () => front.choose(index));
  group.addEventListener('pointermove', (event) => explanation.show([lineOf(front.choices[index]),
    ...front.scales.slice(0, 5).map((scale) => `${scale.measure.name}: ${scale.measure.text(scale.values[index])}`)],
  event));
  group.addEventListener('pointerleave', () => explanation.show(null));
  return group;
}

/** Classes of all marks; what is chosen lies on top. */
function restyle(front, marks) {
  marks.forEach((group, index) => {
    group.classList.toggle('kept', front.isKept(index));
    group.classList.toggle('chosen', index === front.chosen);
  });
  marks[front.chosen].parentNode.append(marks[front.chosen]);
}

/** Calls `drag(from, to)` with places in CSS pixels relative to the drawing that `node` is in; a click is no drag. */
function followBrush(node, drawing, drag) {
  let from = null;
  const place = (event) => {
    const box = drawing.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  node.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    from = place(event);
  });
  node.addEventListener('pointermove', (event) => {
    if (event.buttons === 0) from = null; // it was let go elsewhere
    if (!from) return;
    const to = place(event);
    if (Math.hypot(to[0] - from[0], to[1] - from[1]) <= CLICK) return;
    node.setPointerCapture(event.pointerId); // not before: a click is for what lies below it
    drag(from, to);
  });
  for (const end of ['pointerup', 'pointercancel']) node.addEventListener(end, () => (from = null));
}

/** One axis of the parallel coordinates; gives [node, update]. */
function parallelAxis(front, scale, x, drawing) {
  const length = AXIS.height - AXIS.top - AXIS.bottom;
  const y = (share) => AXIS.top + length * (1 - share);
  const brush = svg('rect', {class: 'brush', x: x - AXIS.reach / 2, width: AXIS.reach});
  const arrow = {less: ' \u2193', more: ' \u2191'}[scale.measure.better] ?? '';
  const node = svg('g', {class: 'axis', tabindex: '0', role: 'group'},
    svg('rect', {class: 'grip', x: x - AXIS.reach, y: 2, width: 2 * AXIS.reach, height: AXIS.height - 4}),
    svg('text', {class: 'name', x, y: 16}, scale.measure.name + arrow),
    svg('line', {x1: x, x2: x, y1: y(0), y2: y(1)}), brush,
    ...scale.labels(6).map((value) => svg('text', {class: 'tick', x: x + 6, y: y(scale.shareOf(value)) + 4},
      scale.measure.text(value))));
  followBrush(node, drawing, (from, to) => {
    const share = (place) => 1 - (place[1] - AXIS.top) / length;
    scale.choose(share(from), share(to));
    front.tell();
  });
  node.addEventListener('keydown', (event) => {
    const direction = {ArrowUp: 1, ArrowDown: -1}[event.key];
    if (direction) scale.step(event.shiftKey ? 0 : 1, direction);
    else if (event.key === '0' || event.key === 'Escape') scale.range = null;
    else return;
    event.preventDefault();
    front.tell();
  });
  const update = () => {
    const [low, high] = scale.range ?? [0, 1];
    brush.setAttribute('y', y(high) - 4);
    brush.setAttribute('height', y(low) - y(high) + 8);
    brush.classList.toggle('all', !scale.range);
    node.setAttribute('aria-label', `${scale.measure.name}: ${scale.text()}. Up and down move the upper end, with ` +
      'Shift the lower one, 0 shows all.');
  };
  return [node, update];
}

/** A line for each choice over all that they differ in; gives [node, draw]. */
function parallelPlot(front, explanation) {
  const scales = front.scales.filter((scale) => scale.varies);
  const place = element('div', {class: 'wide'});
  let update = () => {};
  const draw = () => {
    const width = Math.max(place.clientWidth, AXIS.distance * scales.length);
    const x = (i) => 34 + (width - 34 - AXIS.distance * 0.8) * (scales.length === 1 ? 0 : i / (scales.length - 1));
    const y = (share) => AXIS.top + (AXIS.height - AXIS.top - AXIS.bottom) * (1 - share);
    const drawing = svg('svg', {class: 'front', viewBox: `0 0 ${width} ${AXIS.height}`, width, height: AXIS.height,
      role: 'group', 'aria-label': `${counted(front.choices.length, 'choice')} over ` +
        scales.map((scale) => scale.measure.name).join(', ')});
    const marks = front.choices.map((_, index) => {
      const d = scales.map((scale, i) => `${i ? 'L' : 'M'}${x(i)} ${y(scale.share(index))}`).join('');
      return mark(front, index, explanation, svg('path', {class: 'reach', d}), svg('path', {class: 'shape', d}));
    });
    const axes = scales.map((scale, i) => parallelAxis(front, scale, x(i), drawing));
    drawing.append(svg('g', {}, ...marks), ...axes.map(([node]) => node));
    place.replaceChildren(drawing);
    update = () => {
      restyle(front, marks);
      for (const [, updateAxis] of axes) updateAxis();
    };
    update();
  };
  front.listeners.push(() => update());
  return [place, draw];
}

function scatterAxes(scales, x, y, width) {
  const bottom = SCATTER.height - SCATTER.bottom;
  return [
    svg('line', {x1: SCATTER.left, x2: width - SCATTER.right, y1: bottom, y2: bottom}),
    svg('line', {x1: SCATTER.left, x2: SCATTER.left, y1: SCATTER.top, y2: bottom}),
    svg('text', {class: 'name', x: width - SCATTER.right, y: SCATTER.height - 6}, scales[0].measure.name),
    svg('text', {class: 'name', x: SCATTER.left, y: 12}, scales[1].measure.name),
    ...scales[0].labels(6).map((value) => svg('text', {class: 'tick x', x: x(scales[0].shareOf(value)), y: bottom + 18},
      scales[0].measure.text(value))),
    ...scales[1].labels(6).map((value) => svg('text', {class: 'tick y', x: SCATTER.left - 8,
      y: y(scales[1].shareOf(value)) + 4}, scales[1].measure.text(value))),
  ];
}

/** How far around its place a choice is clicked: not beyond half of the way to another. */
function reach(at, places) {
  const ways = places.map(({cx, cy}) => Math.hypot(cx - at.cx, cy - at.cy)).filter((way) => way > 0);
  return Math.max(Math.min(10, ...ways.map((way) => way / 2)), DOT);
}

/** Two measures against each other; gives [node, draw]. */
function scatterPlot(front, explanation) {
  const scales = front.scales.slice(0, 2);
  const names = front.scales.map((scale) => scale.measure.name);
  const place = element('div', {class: 'wide'});
  let update = () => {};
  const draw = () => {
    const width = Math.max(place.clientWidth, 320);
    const plotWidth = width - SCATTER.left - SCATTER.right - 16;
    const plotHeight = SCATTER.height - SCATTER.top - SCATTER.bottom - 16;
    const x = (share) => SCATTER.left + 8 + plotWidth * share;
    const y = (share) => SCATTER.top + 8 + plotHeight * (1 - share);
    const drawing = svg('svg', {class: 'front scatter', viewBox: `0 0 ${width} ${SCATTER.height}`, width,
      height: SCATTER.height, tabindex: '0', role: 'group', 'aria-label': `${names[front.scales.indexOf(scales[1])]} ` +
        `over ${names[front.scales.indexOf(scales[0])]}. Left and right go from choice to choice, 0 shows all.`});
    const places = front.choices.map((_, index) =>
      ({cx: x(scales[0].share(index)), cy: y(scales[1].share(index))}));
    const marks = front.choices.map((choice, index) => {
      const at = places[index];
      const number = choice.number ? [svg('text', {class: 'tick', x: at.cx + 7, y: at.cy - 6}, nameOf(choice))] : [];
      return mark(front, index, explanation, svg('circle', {class: 'reach', ...at, r: reach(at, places)}),
        svg('circle', {class: 'shape', ...at, r: DOT}), ...number);
    });
    drawing.append(...scatterAxes(scales, x, y, width), svg('g', {}, ...marks));
    followBrush(drawing, drawing, (from, to) => {
      const across = (at) => (at[0] - SCATTER.left - 8) / plotWidth;
      const up = (at) => 1 - (at[1] - SCATTER.top - 8) / plotHeight;
      scales[0].choose(across(from), across(to));
      scales[1].choose(up(from), up(to));
      front.tell();
    });
    drawing.addEventListener('keydown', (event) => pressInScatter(event, front, scales[0]));
    place.replaceChildren(drawing);
    update = () => restyle(front, marks);
    update();
  };
  front.listeners.push(() => update());
  const axis = (label, which) => choice(label, names, which, (index) => {
    scales[which] = front.scales[index];
    draw();
  });
  return [element('div', {}, element('div', {class: 'controls'}, axis('Across', 0), axis('Up', 1)), place), draw];
}

function pressInScatter(event, front, scale) {
  if (event.key === '0' || event.key === 'Escape') {
    event.preventDefault();
    front.showAll();
  }
  const direction = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!direction) return;
  event.preventDefault();
  const order = front.kept.sort((a, b) => scale.share(a) - scale.share(b) || a - b);
  const at = order.indexOf(front.chosen);
  if (order.length > 0) front.choose(order[Math.min(Math.max(at + direction, 0), order.length - 1)]);
}

const COLUMNS = [['', 'text'], ['GPUs', 'number'], ['layout', 'text'], ['mbs', 'number'], ['recompute', 'text'],
  ['s/step', 'number'], ['tokens/s', 'number'], ['live', 'number'], ['longer', 'number']];

/** The choices that are kept, as rows. */
function keptTable(front) {
  const place = element('div', {});
  let shown = '';
  let buttons = new Map();
  const update = () => {
    const kept = front.kept;
    if (kept.join() !== shown) {
      shown = kept.join();
      buttons = new Map(kept.map((index) => [index,
        button(nameOf(front.choices[index]), `show ${lineOf(front.choices[index])}`, () => front.choose(index))]));
      place.replaceChildren(table(`${count(kept.length)} of ${counted(front.choices.length, 'choice')}, by their ` +
        'numbers in the text', COLUMNS, kept.map((index) => {
        const choice = front.choices[index];
        return [buttons.get(index), count(choice.configuration.gpus), choice.layout,
          count(choice.configuration.micro_batch),
          choice.recompute + (choice.configuration.offload_optimizer ? ', offload' : ''), choice.seconds.toPrecision(3),
          count(Math.round(choice.rate)), gib(choice.memory, 1), choice.headroom.toFixed(1) + '\u00d7'];
      })));
    }
    for (const [index, made] of buttons) made.setAttribute('aria-pressed', String(index === front.chosen));
  };
  front.listeners.push(update);
  update();
  return place;
}

/** Puts the curves of all choices' stages where they belong: `times` and `bytes` of each. */
function addCurves(facts, columns) {
  let at = 0;
  for (const choice of facts.choices) {
    choice.stages.forEach((stage, number) => {
      const times = Float64Array.from(columns.times.subarray(at, at + stage.points));
      for (let i = 1; i < times.length; ++i) times[i] += times[i - 1];
      const bytes = Float64Array.from(columns.bytes.subarray(at, at + stage.points), (units) => units * facts.unit);
      at += stage.points;
      stage.curve = {name: `stage ${stage.stage}`, color: `stage-${number}`, times, bytes, shown: true};
    });
  }
}

/** Colours of stages, from first to last, in the style of the page. */
function colorStages(stages) {
  for (let i = 0; i < stages; ++i) {
    const part = stages === 1 ? 0 : Math.round(100 * i / (stages - 1));
    document.documentElement.style.setProperty(`--stage-${i}`,
      `color-mix(in oklab, var(--now) ${part}%, var(--before))`);
  }
}

/** The memory of a choice's ranks over a step; gives [node, view]. */
function memoryFigure(facts, choice, explanation) {
  const curves = choice.stages.map((stage) => stage.curve);
  colorStages(curves.length);
  // Far below it, it would make all else flat.
  const limit = choice.memory < facts.limit / 3 ? []
    : [{name: 'limit', color: 'step', times: [0], bytes: [facts.limit], shown: true}];
  const view = new View(Math.max(...choice.stages.map((stage) => stage.events)), 1);
  const canvas = element('canvas', {class: 'curves', tabindex: '0', role: 'img', 'aria-label':
    `Live memory over a step of ${counted(curves.length, 'rank')}, at most ${gib(choice.memory)} on stage ` +
    `${choice.stage}. Arrow keys move, plus and minus zoom.`});
  drawCurves(canvas, [...curves, ...limit], {steps: [], highest: highestOf([...curves, ...limit])}, view,
    (lines, event) => explanation.show(lines, event));
  const legend = curves.map(({name, color}) => element('span', {},
    element('span', {class: 'swatch', style: `background: var(--${color})`}), ' ' + name));
  const stages = choice.configuration.pp;
  const shown = curves.length < stages ? `${curves.length} of ${stages} pipeline stages` : counted(stages, 'pipeline stage');
  return [element('figure', {}, element('div', {class: 'legend'}, ...legend),
    canvas, element('div', {class: 'controls'}, zoomButtons(view)),
    element('figcaption', {class: 'note'}, `What lives on a rank of each of ${shown} over one step; ranks of a stage ` +
      `are alike. The limit is ${gib(facts.limit, 1)}. Time is counted in events. ${TIME_KEYS}`)), view];
}

function settings(choice) {
  return FRAMEWORKS.filter(([key]) => choice.settings[key]).map(([key, name]) => {
    const value = choice.settings[key];
    const text = typeof value === 'string' ? value.replace(/ (?=--|activation-checkpoint:)/g, '\n') : JSON.stringify(value, null, 2);
    return element('div', {}, element('h3', {}, `For ${name}`),
      element('pre', {tabindex: '0', role: 'region', 'aria-label': `Settings of ${name}`}, text));
  });
}

/** Everything about the chosen one; gives [node, redraw(now)]. */
function chosenPart(facts, front, explanation) {
  const place = element('div', {});
  const line = element('p', {role: 'status', 'aria-live': 'polite', class: 'chosen'});
  let view = null;
  let shown = -1;
  const update = () => {
    if (front.chosen === shown) return;
    shown = front.chosen;
    const choice = facts.choices[shown];
    line.textContent = `${choice.number ? `Choice ${choice.number}: ` : ''}${lineOf(choice)}. ` +
      `${choice.seconds.toPrecision(3)} s a step, ${count(Math.round(choice.rate))} tokens a second, ` +
      `${gib(choice.memory, 1)} live at most.`;
    const reserved = (choice.reserved ?? []).map((bytes, i) => `${gib(bytes, 1)} with ${ALLOCATOR_NAMES[i]}`);
    const [figure, ofFigure] = memoryFigure(facts, choice, explanation);
    view = ofFigure;
    place.replaceChildren(
      ...(reserved.length ? [element('p', {}, `The fullest rank would reserve ${reserved.join(', ')}.`)] : []),
      figure, element('div', {class: 'pair'}, ...settings(choice)));
    view.change();
  };
  front.listeners.push(update);
  update();
  return [element('div', {}, line, place), (now) => (now ? view.changeNow() : view.change())];
}

function summary(facts) {
  const how = facts.stopped ? 'stopped early after' : facts.exhaustive ? 'from all' : 'from a search of';
  const some = facts.choices.length < facts.front
    ? ` Here are the ${count(facts.choices.length)} that differ most.` : '';
  return element('p', {}, `${counted(facts.front, 'configuration')} that no other beats in all objectives at once, ` +
    `${how} ${count(facts.evaluations)}.${some}`);
}

function nothingFits(facts) {
  const limit = gib(facts.limit, 1);
  return element('p', {}, facts.stopped
    ? `Stopped early after ${counted(facts.evaluations, 'configuration')}, none of which fits in ${limit}.`
    : `Nothing fits in ${limit}: more GPUs, a larger GPU, a shorter sequence or more pipeline stages may help.`);
}

async function main() {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const report = document.getElementById('report');
  const heading = [element('h1', {}, 'Which configuration?'),
    element('h2', {class: 'job'}, `${facts.model} on ${facts.gpu}`)];
  if (facts.choices.length === 0) {
    report.replaceChildren(...heading, nothingFits(facts));
    return;
  }
  addCurves(facts, await unpack(0, facts.columns));
  const explanation = new Explanation();
  const front = new Front(facts);
  const [parallel, drawParallel] = parallelPlot(front, explanation);
  const [scatter, drawScatter] = scatterPlot(front, explanation);
  const [chosen, redrawChosen] = chosenPart(facts, front, explanation);
  const all = button('all', 'show all choices', () => front.showAll());
  // Of one choice there is nothing to compare.
  const compared = facts.choices.length === 1 ? [] : [section('front', 'The front', element('p', {class: 'note'}, 'A line is a choice. Drag along axes to keep a range of ' +
      'them; click a line or a point to see it below. With the keyboard: Tab to an axis, then up and down. Arrows say ' +
      'what is better.'), element('div', {class: 'controls'}, element('span', {class: 'buttons'}, all)), parallel, scatter)];
  report.replaceChildren(...heading, summary(facts), ...compared,
    section('chosen', 'One choice', chosen),
    section('kept', 'All that are kept', keptTable(front)));
  drawParallel();
  drawScatter();
  redrawChosen(true);
  // Style sheets know of colours; and what is drawn anew loses the keyboard's focus.
  let width = parallel.clientWidth;
  redrawOn((now) => {
    if (parallel.clientWidth !== width) {
      width = parallel.clientWidth;
      drawParallel();
      drawScatter();
    }
    redrawChosen(now);
  });
}

present(main);
