// The page: a table of all jobs, and the one that was chosen.

import {ALLOCATORS, ALLOCATOR_NAMES} from './colors.js';
import {curvesOf, drawCurves, highestOf} from './curves.js';
import {unpack} from './data.js';
import {count, counted, element, gib, percent} from './format.js';
import {AddressMap, COLORINGS} from './map.js';
import {choice, Explanation, MAP_KEYS, present, redrawOn, section, TIME_KEYS, zoomButtons} from './parts.js';
import {jobsTable, peakTable, segmentsPicture, stepsPicture, stepsTables, strandedTables, verdict} from './tables.js';
import {View} from './view.js';

function curveSwitches(curves, view) {
  return element('div', {class: 'legend'}, ...curves.map((curve) => {
    const box = element('input', {type: 'checkbox', checked: ''});
    box.addEventListener('change', () => {
      curve.shown = box.checked;
      view.change();
    });
    return element('label', {}, box, element('span', {class: 'swatch ' + curve.color}), ' ' + curve.name);
  }));
}

function memorySection(job, columns, view, explanation) {
  const canvas = element('canvas', {class: 'curves', tabindex: '0', role: 'img',
    'aria-label': `Memory over time: at most ${gib(job.numbers.requested)} asked for; reserved at most ` +
      ALLOCATORS.map((key, i) => `${gib(job.numbers.reserved[i])} by ${ALLOCATOR_NAMES[i]}`).join(', ')});
  const curves = curvesOf(columns);
  drawCurves(canvas, curves, {steps: job.steps, highest: highestOf(curves)}, view,
    (lines, event) => explanation.show(lines, event));
  return section('memory', 'Memory over time', curveSwitches(curves, view), canvas,
    element('p', {class: 'note'}, `Time is counted in events: allocations and frees. ${TIME_KEYS}`));
}

function leftOutNote(job) {
  if (job.drawn === 0) return 'No request takes memory, so none is drawn.';
  if (job.left_out.requests === 0) return `All ${count(job.drawn)} requests are drawn.`;
  return `${count(job.drawn)} requests are drawn; the ${count(job.left_out.requests)} smallest and shortest are left ` +
    `out, ${percent(job.left_out.share, 3)} of all bytes times events.`;
}

function mapSection(job, columns, view, explanation) {
  const canvas = element('canvas', {class: 'map', tabindex: '0', role: 'img',
    'aria-label': 'The address space over time: each request a rectangle at its addresses. Arrow keys move, plus and ' +
      'minus zoom; the request in the middle is read out.'});
  const legend = element('div', {class: 'legend'});
  const show = (lines, event) => explanation.show(lines, event);
  const map = new AddressMap(canvas, columns, job, view, show, (entries) => {
    legend.replaceChildren(...entries.map(([color, name]) => {
      const swatch = element('span', {class: 'swatch'});
      swatch.style.background = color;
      return element('span', {}, swatch, ' ' + name);
    }));
  });
  const place = (i) => {
    map.place(columns[ALLOCATORS[i] + '_offset']);
    view.setExtent(job.extents[i]);
  };
  const color = (i) => {
    map.color(COLORINGS[i]);
    view.change();
  };
  place(2);
  color(0);
  return section('map', 'The address space over time',
    element('div', {class: 'controls'}, choice('Allocator', ALLOCATOR_NAMES, 2, place),
      choice('Colour by', COLORINGS, 0, color), zoomButtons(view)),
    legend, canvas,
    element('p', {class: 'note'}, `${leftOutNote(job)} Addresses that were never used are left out; memory may move ` +
      'behind addresses (STWeaver, expandable segments), so a map can be higher than what is reserved at any one ' +
      `time. PyTorch's allocators are simulated here. Point at a block to have it explained. ${MAP_KEYS}`));
}

function stepsSection(job) {
  if (job.steps.length === 0) {
    return section('steps', 'Steps', element('p', {}, 'No steps were found: ' + job.step_note));
  }
  return section('steps', 'Steps side by side', stepsPicture(job), stepsTables(job));
}

/** Shows a job in `place`; gives its view, to be drawn again when something outside changes. */
function showJob(job, columns, place, explanation) {
  const view = new View(job.events, job.extents[2]);
  place.replaceChildren(
    element('h2', {class: 'job'}, job.name),
    element('p', {class: 'note'}, `Device ${job.device}, ${counted(job.requests, 'request')}, ` +
      `${counted(job.steps.length, 'step')}, ${counted(job.all_streams, 'stream')}` +
      (job.settings ? `, settings ${job.settings}` : '')),
    verdict(job),
    memorySection(job, columns, view, explanation),
    mapSection(job, columns, view, explanation),
    section('peak', 'Who is alive at the peak', peakTable(job)),
    section('stranded', 'Reserved but unallocated: the default allocator at its worst moment', strandedTables(job),
      segmentsPicture(job)),
    stepsSection(job));
  return view;
}

async function main() {
  const jobs = JSON.parse(document.getElementById('facts').textContent);
  const explanation = new Explanation();
  const place = element('div', {id: 'job'});
  let view = null;
  let chosen = null;
  const choose = async (number) => {
    chosen = number;
    const isChosen = () => number === chosen; // no other one was since
    const columns = await unpack(number, jobs[number].columns).catch((error) => {
      if (isChosen()) throw error;
    });
    if (!isChosen()) return;
    view = showJob(jobs[number], columns, place, explanation);
    view.changeNow();
  };
  const chooser = jobs.length > 1
    ? element('p', {class: 'controls'},
      choice('Job', jobs.map((job) => job.name), 0, (number) => present(() => choose(number)))) : '';
  document.getElementById('report').replaceChildren(
    element('h1', {}, 'Memory report'), jobsTable(jobs), chooser, place);
  await choose(0);
  redrawOn((now) => (now ? view?.changeNow() : view?.change()));
}

present(main);
