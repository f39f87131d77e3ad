// The data of one job: what columns.cc packed.

function decodeBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Numbers from planes of bytes, the lowest first; of ascending ones only differences were written. */
function joinPlanes(bytes, at, column) {
  const numbers = column.planes <= 4 ? new Uint32Array(column.count) : new Float64Array(column.count);
  for (let plane = 0, scale = 1; plane < column.planes; ++plane, scale *= 256) {
    for (let i = 0; i < column.count; ++i) numbers[i] += bytes[at++] * scale;
  }
  if (column.ascending) {
    for (let i = 1; i < column.count; ++i) numbers[i] += numbers[i - 1];
  }
  return numbers;
}

/** The columns of job number `job` by name, as typed arrays. */
export async function unpack(job, columns) {
  const bytes = await inflate(decodeBase64(document.getElementById('data-' + job).textContent));
  const unpacked = {};
  let at = 0;
  for (const column of columns) {
    unpacked[column.name] = joinPlanes(bytes, at, column);
    at += column.planes * column.count;
  }
  return unpacked;
}

/** The largest of `numbers`, 1 at least. Arguments (`Math.max(...numbers)`) cannot be as many as steps can. */
export function largestOf(numbers) {
  return numbers.reduce((a, b) => Math.max(a, b), 1);
}

/** The index of the last of ascending `numbers` that is not above `wanted`; -1 if there is none. */
export function lastAtMost(numbers, wanted) {
  let low = -1;
  let high = numbers.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= wanted) low = middle;
    else high = middle;
  }
  return low;
}
