// What pages are made of: sections, tables, choices, the lines that explain what is pointed at.

import {element, percent} from './format.js';

export const TIME_KEYS = 'Wheel or + and - zoom, dragging or arrow keys move, double click or 0 shows all.';
export const MAP_KEYS = 'Wheel or + and - zoom (with Shift: time only, with Alt: addresses only), dragging or arrow ' +
  'keys move, double click or 0 shows all.';

export function section(id, title, ...children) {
  return element('section', {'aria-labelledby': id}, element('h2', {id}, title), ...children);
}

/** A labelled choice; calls `choose(index)` when it changes. */
export function choice(label, names, chosen, choose) {
  const select = element('select', {}, ...names.map((name, i) => element('option', {value: i}, name)));
  select.selectedIndex = chosen;
  select.addEventListener('change', () => choose(select.selectedIndex));
  return element('label', {}, label + ' ', select);
}

export function button(text, title, press) {
  const made = element('button', {type: 'button', title, 'aria-label': title}, text);
  made.addEventListener('click', press);
  return made;
}

/** The lines that explain what is under the pointer, beside it and for screen readers. */
export class Explanation {
  constructor() {
    this.box = element('div', {class: 'explanation', role: 'status', 'aria-live': 'polite', hidden: ''});
    document.body.append(this.box);
  }

  show(lines, event) {
    this.box.hidden = !lines;
    if (!lines) return;
    this.box.replaceChildren(...lines.map((line) => element('div', {}, line)));
    const x = event ? event.clientX + 14 : 90;
    const y = event ? event.clientY + 14 : window.innerHeight - 160;
    this.box.style.left = Math.max(Math.min(x, window.innerWidth - this.box.offsetWidth - 8), 0) + 'px';
    this.box.style.top = Math.max(Math.min(y, window.innerHeight - this.box.offsetHeight - 8), 0) + 'px';
  }
}

export function zoomButtons(view) {
  const zoom = (factor) => () => {
    view.time.zoom(factor, 0.5);
    view.space.zoom(factor, 0.5);
    view.change();
  };
  const reset = () => {
    view.time.reset();
    view.space.reset();
    view.change();
  };
  return element('span', {class: 'buttons'}, button('+', 'zoom in', zoom(0.6)),
    button('\u2212', 'zoom out', zoom(1 / 0.6)), button('all', 'show all', reset));
}

/** A table; columns are [heading, 'text' or 'number'], rows arrays of texts or nodes. */
export function table(caption, columns, rows) {
  const kinds = columns.map(([, kind]) => kind);
  const heading = ([name, kind]) => element('th', {scope: 'col', class: kind}, name);
  const head = element('tr', {}, ...columns.map(heading));
  const body = element('tbody');
  for (const row of rows) {
    body.append(element('tr', {}, ...row.map((cell, i) =>
      element(i === 0 ? 'th' : 'td', i === 0 ? {scope: 'row', class: kinds[i]} : {class: kinds[i]}, cell))));
  }
  return element('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
    element('table', {}, element('caption', {}, caption), element('thead', {}, head), body));
}

/** What is less than all does not read 100 %. */
export function share(part, whole) {
  return whole === 0 ? '-' : percent(Math.min(part / whole, part < whole ? 0.999 : 1));
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Does what shows something, and marks the page as ready; where it fails, the page says so. */
export async function present(work) {
  try {
    await work();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  } catch (error) {
    document.getElementById('report').replaceChildren(
      element('p', {role: 'alert'}, `This page cannot be shown: ${error.message}.`));
    throw error;
  }
}

/** Calls `redraw(now)` when the colours or the size of the page change; `now`: before the next frame is too late. */
export function redrawOn(redraw) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redraw(false));
  new ResizeObserver(() => redraw(false)).observe(document.documentElement);
  const print = (printing) => () => {
    document.documentElement.toggleAttribute('data-print', printing);
    redraw(true);
  };
  window.addEventListener('beforeprint', print(true));
  window.addEventListener('afterprint', print(false));
}
