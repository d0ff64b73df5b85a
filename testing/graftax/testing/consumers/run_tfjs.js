// Runs a model that the converter of TensorFlow.js wrote: node run_tfjs.js FOLDER < inputs.json > outputs.json
const fs = require('fs');
const path = require('path');
const tf = require('@tensorflow/tfjs');

const folder = process.argv[2];
const model = JSON.parse(fs.readFileSync(path.join(folder, 'model.json')));
const manifest = model.weightsManifest;
const files = manifest.flatMap(group => group.paths).map(name => fs.readFileSync(path.join(folder, name)));
const weights = Buffer.concat(files);
const handler = {
  load: async () => ({
    modelTopology: model.modelTopology,
    format: model.format,
    signature: model.signature,
    weightSpecs: manifest.flatMap(group => group.weights),
    weightData: weights.buffer.slice(weights.byteOffset, weights.byteOffset + weights.length),
  }),
};

const numbers = values => Array.from(values, x => Number.isNaN(x) ? 'NaN' : Number.isFinite(x) ? Number(x) : String(x));

async function main() {
  await tf.setBackend('cpu');
  const graph = await tf.loadGraphModel(handler);
  // JSON has no NaN and no infinity: Number() reads them as text.
  const given = JSON.parse(fs.readFileSync(0).toString().replace(/-?\b(NaN|Infinity)\b/g, '"$&"'));
  const feeds = {};
  const signature = model.signature || {};
  for (const [name, info] of Object.entries(signature.inputs || {})) {
    // The converter names inputs of one shape and dtype after their nodes.
    const x = given[name.replace(/:0$/, '')];
    const values = x.values.map(Number);
    feeds[info.name] = tf.tensor(x.dtype === 'bool' ? values.map(Boolean) : values, x.shape,
                                 x.dtype === 'bool' ? 'bool' : x.dtype === 'int32' ? 'int32' : 'float32');
  }
  // The signature has the results in any order; the numbers at the ends of their names are those of the results.
  const order = new Intl.Collator('en', {numeric: true});
  const names = Object.values(signature.outputs).map(info => info.name).sort(order.compare);
  const results = [].concat(await graph.executeAsync(feeds, names));
  const found = {};
  results.forEach((y, i) => { found[`y${i}`] = {shape: y.shape, values: numbers(y.dataSync())}; });
  console.log(JSON.stringify(found));
}

main().catch(e => { console.error(e && e.message || e); process.exit(1); });
