// The page of `diff`: what two runs hold at their peaks, and what they ask for over a step.

import {CLASS_NAMES} from './colors.js';
import {drawCurves, highestOf} from './curves.js';
import {largestOf, unpack} from './data.js';
import {count, counted, element, gib} from './format.js';
import {choice, Explanation, present, redrawOn, section, svg, table, TIME_KEYS, zoomButtons} from './parts.js';
import {View} from './view.js';

const RUNS = ['before', 'now'];
const KINDS = ['new', 'grown', 'gone', 'shrunk'];

function growth(bytes) {
  return bytes[1] - bytes[0];
}

function signed(bytes) {
  if (bytes === 0) return '0';
  return (bytes < 0 ? '\u2212' : '+') + gib(Math.abs(bytes), 3);
}

function kindOf({requests, bytes}) {
  if (requests[0] === 0) return 'new';
  if (requests[1] === 0) return 'gone';
  return growth(bytes) > 0 ? 'grown' : 'shrunk';
}

/** One sentence, and what changed by class. */
function summary(facts) {
  const [before, now] = facts.runs;
  const more = growth(facts.peaks);
  const verdict = more === 0 ? 'the same at most' : `${gib(Math.abs(more), 3)} ${more > 0 ? 'more' : 'less'} at most`;
  const rows = CLASS_NAMES.map((name, i) => {
    const bytes = facts.classes[i];
    return [name, gib(bytes[0], 3), gib(bytes[1], 3), signed(growth(bytes))];
  });
  rows.push(['all', gib(facts.peaks[0], 3), gib(facts.peaks[1], 3), signed(more)]);
  return element('div', {},
    element('p', {}, `${now.name} asks for ${verdict}: ${gib(facts.peaks[1])} after ${gib(facts.peaks[0])} of ` +
      `${before.name}.`),
    table('Alive at the peak, by class', [['class', 'text'], ['before', 'number'], ['now', 'number'],
      ['more', 'number']], rows));
}

/** The stretch of a run in which it reaches its peak: a step, or what lies outside of all. */
function stretchText({is_step: isStep, begun, steps}) {
  if (steps === 0) return 'the whole recording, in which no steps were found';
  if (isStep) return `step ${begun} of ${steps}`;
  if (begun === 0) return 'what comes before the first step';
  return begun === steps ? 'what comes after the last step' : `what lies between steps ${begun} and ${begun + 1}`;
}

/** One run's memory over the step in which it reaches its peak, or around it outside of steps; gives [figure, view]. */
function runFigure(facts, curves, number, explanation) {
  const run = facts.runs[number];
  const view = new View(run.events, 1);
  const canvas = element('canvas', {class: 'curves', tabindex: '0', role: 'img',
    'aria-label': `${run.name}: asked for over ${stretchText(run)}, at most ${gib(facts.peaks[number])}. Arrow keys ` +
      'move, plus and minus zoom.'});
  drawCurves(canvas, [curves[number]], {steps: [], highest: highestOf(curves)}, view,
    (lines, event) => explanation.show(lines, event));
  const swatch = element('span', {class: 'swatch ' + RUNS[number]});
  const caption = element('figcaption', {}, swatch, ` ${RUNS[number]}: ${run.name}, ${stretchText(run)}, ` +
    counted(run.events, 'event'));
  return [element('figure', {}, caption, canvas, element('div', {class: 'controls'}, zoomButtons(view))), view];
}

/** How much a change is beside the largest one: to the right what grew, to the left what shrank. */
function bar(bytes, largest) {
  const width = 60 * Math.abs(bytes) / largest;
  return svg('svg', {viewBox: '0 0 120 10', class: 'bar', 'aria-hidden': 'true', preserveAspectRatio: 'none'},
    svg('rect', {class: bytes > 0 ? 'more' : 'less', x: bytes > 0 ? 60 : 60 - width, y: 0, width, height: 10}));
}

function changesTable(facts, kind) {
  const chosen = facts.changes.filter((change) => kind === 'all' || kindOf(change) === kind);
  const largest = largestOf(facts.changes.map((change) => Math.abs(growth(change.bytes))));
  const rows = chosen.map((change) => [change.what, kindOf(change), signed(growth(change.bytes)),
    bar(growth(change.bytes), largest), gib(change.bytes[0], 3), gib(change.bytes[1], 3),
    `${count(change.requests[0])} \u2192 ${count(change.requests[1])}`, CLASS_NAMES[change.class]]);
  return table(`${counted(rows.length, 'change')}, the largest first`, [
    [facts.by_line ? 'line of code' : 'requests (not both runs know lines of Python)', 'text'], ['', 'text'],
    ['more', 'number'], ['', 'text'], ['before', 'number'], ['now', 'number'], ['requests', 'number'],
    ['class', 'text']], rows);
}

function changesSection(facts) {
  if (facts.changes.length === 0) {
    return section('changes', 'What changed', element('p', {}, 'At their peaks both runs hold the same.'));
  }
  const place = element('div', {}, changesTable(facts, 'all'));
  const counts = KINDS.map((kind) => facts.changes.filter((change) => kindOf(change) === kind).length);
  const names = [`all (${count(facts.changes.length)})`, ...KINDS.map((kind, i) => `${kind} (${count(counts[i])})`)];
  const choose = choice('Show', names, 0, (i) => place.replaceChildren(changesTable(facts, ['all', ...KINDS][i])));
  const rest = facts.more > 0
    ? `${counted(facts.more, 'smaller change')} more, ${signed(facts.more_bytes)} together, are left out.` : '';
  return section('changes', 'What changed', element('p', {class: 'note'}, 'Requests that are alive at the peak of ' +
    `each run, grouped by ${facts.by_line ? 'line of code' : 'size'} and class. ${rest}`),
  element('div', {class: 'controls'}, choose), place);
}

async function main() {
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const columns = await unpack(0, facts.columns);
  const curves = RUNS.map((run) =>
    ({name: 'asked for', color: run, times: columns[run + '_time'], bytes: columns[run + '_bytes'], shown: true}));
  const explanation = new Explanation();
  const figures = RUNS.map((_, number) => runFigure(facts, curves, number, explanation));
  const views = figures.map(([, view]) => view);
  document.getElementById('report').replaceChildren(
    element('h1', {}, 'Memory of two runs'),
    element('h2', {class: 'job'}, facts.runs.map((run) => run.name).join(' \u2192 ')),
    summary(facts),
    section('memory', 'Memory around the peak',
      element('div', {class: 'pair'}, ...figures.map(([figure]) => figure)),
      element('p', {class: 'note'}, 'What the run asked for and had not given back; both on one scale. Time is ' +
        `counted in events: allocations and frees. ${TIME_KEYS}`)),
    changesSection(facts));
  for (const view of views) view.changeNow();
  redrawOn((now) => views.forEach((view) => (now ? view.changeNow() : view.change())));
}

present(main);
