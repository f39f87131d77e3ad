// The tables of a report: all jobs, who is alive at the peak, what is stranded, the steps.

import {ALLOCATORS, ALLOCATOR_NAMES, CLASS_NAMES} from './colors.js';
import {largestOf} from './data.js';
import {count, counted, element, exactSize, gib, percent, size} from './format.js';
import {share, svg, table} from './parts.js';

export function jobsTable(jobs) {
  const rows = jobs.map((job) => {
    const {requested, reserved, room} = job.numbers;
    return [job.name, gib(requested), ...reserved.flatMap((bytes) => [gib(bytes), share(requested, bytes)]),
      gib(reserved[0] - reserved[2]), gib(reserved[1] - reserved[2]), growth(room[0]) ? '+' + growth(room[0]) : '-'];
  });
  return table('Reserved at most, and the share of it that was asked for', [
    ['job', 'text'], ['asked for', 'number'],
    ...ALLOCATOR_NAMES.flatMap((name) => [[name, 'number'], ['', 'number']]),
    ['less than default', 'number'], ['less than expandable', 'number'], ['room to grow', 'number']], rows);
}

/** By how much memory could grow; empty where that rounds to nothing. */
function growth(factor) {
  return Math.round(100 * (factor - 1)) > 0 ? percent(factor - 1, 0) : '';
}

/** What planning saves, in sentences. */
export function verdict(job) {
  const {requested, reserved, room, planned_steps: steps, measured} = job.numbers;
  const compared = (i) => {
    const saved = reserved[i] - reserved[2];
    return `${gib(Math.abs(saved))} ${saved >= 0 ? 'less' : 'more'} than ${
      i === 0 ? 'PyTorch\'s default allocator' : 'its expandable segments'} (${gib(reserved[i])})`;
  };
  const lines = [
    `This job asks for ${gib(requested)} at most. STWeaver reserves ${gib(reserved[2])}: ` +
    `${compared(0)} and ${compared(1)}.`];
  const [inDefault, inExpandable] = room.map(growth);
  if (inDefault) {
    const beside = inExpandable ? `, and by ${inExpandable} in what expandable segments reserve` : '';
    lines.push(`Under STWeaver everything but persistent memory could grow by ${inDefault} in what the ` +
      `default reserves${beside}: longer sequences or larger batches, as far as memory is proportional to them.`);
  }
  const names = ['that of the default', 'that of expandable segments'];
  const theirs = measured.includes(true) ? `Of PyTorch's reserves ${names[measured.indexOf(true)]} was measured by the ` +
    `job itself, ${names[measured.indexOf(false)]} simulated` : 'PyTorch\'s allocators were simulated';
  lines.push(`${theirs}; STWeaver planned from ${steps > 0 ? counted(steps, 'step') : 'the whole trace'} and served ` +
    'the whole job on this machine.');
  return element('div', {}, ...lines.map((line) => element('p', {}, line)));
}

export function peakTable(job) {
  const {peak} = job;
  const bySite = peak.groups.some((group) => group.site !== '');
  const rows = peak.groups.map((group) => [
    group.site || (bySite ? 'no line known, ' : '') + 'requests of ' + exactSize(group.largest),
    gib(group.bytes, 3), share(group.bytes, peak.bytes),
    count(group.requests),
    group.smallest === group.largest ? size(group.largest) : `${size(group.smallest)} to ${size(group.largest)}`,
    CLASS_NAMES[group.class], group.stream]);
  if (peak.more > 0) {
    rows.push([counted(peak.more, 'smaller group'), gib(peak.more_bytes, 3), share(peak.more_bytes, peak.bytes),
      '', '', '', '']);
  }
  return table(`Alive at event ${count(peak.time)}: ${counted(peak.requests, 'request')}, ${gib(peak.bytes)}`, [
    [bySite ? 'line of code' : 'requests (the trace knows no lines of Python)', 'text'], ['bytes', 'number'],
    ['share', 'number'],
    ['requests', 'number'], ['size of one', 'number'], ['class', 'text'], ['stream', 'number']], rows);
}

/** The default allocator just before its reserve reached its peak. */
export function strandedTables(job) {
  const moment = job.stranded;
  if (moment.peak === 0) return element('p', {}, 'The default allocator, simulated, reserves nothing.');
  const idle = moment.reserved - moment.allocated;
  const wish = moment.request
    ? `a request of ${size(moment.request.size)} on stream ${moment.request.stream} fitted nowhere`
    : 'memory from before recording was placed';
  const before = moment.reserved === 0 ? 'Nothing was reserved before.'
    : `Just before, ${gib(idle)} of its ${gib(moment.reserved)} were reserved but unallocated ` +
      `(${share(idle, moment.reserved)}), and ${gib(moment.allocated - moment.requested)} were lost to rounding.`;
  const lines = [
    `At event ${count(moment.time)} ${wish}, and the default allocator's reserve grew to its peak. ${before}`];
  if (job.numbers.measured[0]) {
    lines.push(`This is simulated; the job itself measured a peak of ${gib(job.numbers.reserved[0])}, which is less ` +
      'where it gave cached memory back and more where it had other allocations.');
  }
  const rows = moment.kinds.map((kind) => [
    `${kind.small ? 'small' : 'large'} requests, stream ${kind.stream}${kind.pool ? `, pool ${kind.pool}` : ''}`,
    count(kind.segments), gib(kind.reserved), gib(kind.free), count(kind.free_blocks), size(kind.largest),
    gib(kind.empty)]);
  return element('div', {}, ...lines.map((line) => element('p', {}, line)),
    rows.length === 0 ? '' : table('Only requests of the same kind can use what is free', [
      ['kind', 'text'], ['segments', 'number'], ['reserved', 'number'], ['unallocated', 'number'],
      ['free blocks', 'number'], ['largest free block', 'number'], ['in empty segments', 'number']], rows));
}

function quantile(sorted, share) {
  return sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)];
}

/** How the steps are spread: least, median, 90 %, most. */
export function stepsTables(job) {
  const measures = [
    ['asked for at most', (step) => step.requested, gib],
    ...ALLOCATOR_NAMES.map((name, i) => ['reserved by ' + name, (step) => step.reserved[i], gib]),
    ['requests', (step) => step.requests, count],
    ['seconds while recording', (step) => step.seconds, (value) => (value > 0 ? value.toFixed(3) : '-')],
  ];
  const spread = measures.map(([name, of, show]) => {
    const sorted = job.steps.map(of).sort((a, b) => a - b);
    return [name, show(sorted[0]), show(quantile(sorted, 0.5)), show(quantile(sorted, 0.9)), show(sorted.at(-1))];
  });
  const all = job.steps.map((step, i) => [String(i + 1), ...measures.map(([, of, show]) => show(of(step)))]);
  return element('div', {},
    table(`Distribution over ${counted(job.steps.length, 'step')}`, [['of a step', 'text'], ['least', 'number'],
      ['median', 'number'], ['90 %', 'number'], ['most', 'number']], spread),
    element('details', {}, element('summary', {}, 'All steps'),
      table('Step by step', [['step', 'number'], ...measures.map(([name]) => [name, 'number'])], all)));
}

/** Steps side by side: what each asked for as a bar, what each allocator had reserved as a line. */
export function stepsPicture(job) {
  const width = 1000;
  const height = 180;
  const most = largestOf(job.steps.flatMap((step) => [step.requested, ...step.reserved]));
  const each = width / job.steps.length;
  const y = (bytes) => (height * (1 - bytes / most)).toFixed(1);
  const bars = job.steps.map((step, i) =>
    `M${(each * (i + 0.1)).toFixed(1)} ${height}V${y(step.requested)}h${(each * 0.8).toFixed(1)}V${height}z`);
  const lines = ALLOCATORS.map((key, k) => svg('path', {
    class: 'line ' + key,
    d: job.steps.map((step, i) =>
      `${i === 0 ? 'M' : 'L'}${(each * i).toFixed(1)} ${y(step.reserved[k])}h${each.toFixed(1)}`).join(''),
  }));
  return element('div', {},
    element('p', {class: 'note'}, 'Bars: asked for at most. Lines: reserved at most, coloured as above. The picture ' +
      `begins at 0; the highest is ${gib(most)}.`),
    svg('svg', {viewBox: `0 -4 ${width} ${height + 8}`, preserveAspectRatio: 'none', class: 'steps', role: 'img',
      'aria-label': `Memory of ${counted(job.steps.length, 'step')} side by side; the table below has the numbers`},
    svg('path', {class: 'asked', d: bars.join('')}), ...lines));
}

/** Segments of the default allocator with the most unallocated memory, as strips: what is free in them is pale. */
export function segmentsPicture(job) {
  const {segments, all_segments: all} = job.stranded;
  if (segments.length === 0) return '';
  const width = 1000;
  const row = 6;
  const longest = largestOf(segments.map((segment) => segment.size));
  const x = (bytes) => (width * bytes / longest).toFixed(2);
  let used = '';
  let free = '';
  segments.forEach((segment, i) => {
    const strip = (begin, end) => `M${x(begin)} ${i * row}H${x(end)}v${row - 1}H${x(begin)}z`;
    let at = 0;
    for (let k = 0; k < segment.free.length; k += 2) {
      const begin = segment.free[k];
      used += strip(at, begin);
      at = begin + segment.free[k + 1];
      free += strip(begin, at);
    }
    used += strip(at, segment.size);
  });
  return element('div', {},
    element('p', {class: 'note'}, 'The segments with the most unallocated memory, one below the other ' +
      `(${count(segments.length)} of ${count(all)}); pale is what is free. The longest is ${size(longest)}.`),
    svg('svg', {viewBox: `0 0 ${width} ${segments.length * row}`, preserveAspectRatio: 'none', class: 'segments',
      style: `height: ${Math.min(segments.length * row, 420)}px`, role: 'img',
      'aria-label': `The ${counted(segments.length, 'segment')} with the most unallocated memory, of ${count(all)}`},
    svg('path', {class: 'used', d: used}), svg('path', {class: 'free', d: free})));
}
