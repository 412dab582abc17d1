// generate.mjs -- tokens from a model by llama.cpp: two sequences at once, then a second text in the place of the first.
// usage: node generate.mjs MODEL; prints what it did, by its own count, as JSON.
import { getLlama } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, maxThreads: 1 });
const model = await llama.loadModel({ modelPath: process.argv[2] });
const context = await model.createContext({ contextSize: 512, sequences: 2, threads: 1, batchSize: 64 });

async function generate(sequence, text, n) {
    const prompt = model.tokenize(text);
    const out = [];
    for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
        out.push(token);
        if (out.length === n) break;
    }
    return { prompt: prompt.length, tokens: out };
}

const [a, b] = [context.getSequence(), context.getSequence()];
const long = "the quick brown fox jumps over the lazy dog ".repeat(4); // more than a batch takes
const done = await Promise.all([generate(a, "hello world", 12), generate(b, long, 7)]);
await a.clearHistory();
done.push(await generate(a, "once more", 5));
console.log(JSON.stringify(done));
await llama.dispose();
