// made by `unabridged install` (`unabridged uninstall opencode` takes it away). Before opencode compacts, the session is
// archived; what its summary loses is added to the summary. Whatever fails here, opencode goes on as without it.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = "__PROGRAM__";
const LONGEST = 60_000; // milliseconds

/** What `unabridged hook` answers to an event, as it does to Claude Code and Codex; nothing where it is gone or fails. */
function hook(event: object): Promise<any> {
  const answered = new Promise<string>((resolve, reject) => {
    let out = "";
    // Not spawn's own timeout: where the program is gone, that would keep opencode from ending until it is over.
    const signal = AbortSignal.timeout(LONGEST);
    const child = spawn(PROGRAM, ["hook"], { stdio: ["pipe", "pipe", "ignore"], signal });
    child.on("error", reject);
    child.on("close", () => resolve(out));
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (data: string) => (out += data));
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(event));
  });
  return answered.then((out) => JSON.parse(out) ?? {}).catch(() => ({})); // also where spawn itself throws
}

/** A message as lines for the hook, one for each voice in it: what tools answered, or opencode put in, is nobody's. */
function* linesOf({ info, parts }: any): Generator<object> {
  const line = (role: string, content: object[], from?: string) => ({ opencode: info.id, role, content, from });
  const by = (type: string) => parts.filter((part: any) => part.type === type);
  if (info.role === "user") {
    const put = by("text").filter((part: any) => part.synthetic || part.ignored);
    const said = parts.filter((part: any) => part.type !== "compaction" && !put.includes(part));
    if (said.length) yield line("user", said);
    if (put.length) yield line("user", put, "host");
    return;
  }
  if (!info.time?.completed) return; // it is being written
  const thought = by("reasoning").map((part: any) => ({ type: "thinking", thinking: part.text }));
  const told = by("text").map((part: any) => ({ type: "text", text: part.text }));
  const uses = by("tool").map(({ callID, tool, state }: any) => ({
    type: "tool_use", id: callID, name: tool, input: state.input,
  }));
  const content = [...thought, ...told, ...uses];
  if (content.length) yield line("assistant", content, info.summary ? "summary" : undefined);
  const answers = by("tool").map(({ callID, state }: any) => ({
    type: "tool_result", tool_use_id: callID, content: state.output ?? state.error ?? "", is_error: state.status === "error",
  }));
  if (answers.length) yield line("user", answers);
}

/** The session as a file that the hook reads, and how it is told of events; it is gone when the compaction is done. */
async function transcriptOf(client: any, id: string, cwd: string) {
  const { data } = await client.session.messages({ path: { id } });
  const folder = await mkdtemp(join(tmpdir(), "unabridged-"));
  const path = join(folder, `${id}.jsonl`);
  const lines = (data ?? []).flatMap((message: any) => [...linesOf(message)]);
  const remove = () => rm(folder, { recursive: true, force: true }).catch(() => {});
  try {
    await writeFile(path, lines.map((line: object) => JSON.stringify(line) + "\n").join(""), { mode: 0o600 });
  } catch (error) {
    await remove(); // half of it, on a full disk
    throw error;
  }
  const about = { session_id: id, transcript_path: path, cwd, client: "opencode" };
  return {
    tell: (name: string, more: object = {}) => hook({ hook_event_name: name, ...about, ...more }),
    remove,
    reminder: Promise.resolve({}) as Promise<any>,
  };
}

export const Unabridged = async ({ client, directory }: any) => {
  const compacting = new Map<string, any>();
  let open = ""; // the session that a person spoke in last

  async function drop(id: string) {
    await compacting.get(id)?.remove();
    compacting.delete(id);
  }

  return {
    "chat.message": async ({ sessionID }: any) => {
      if (sessionID === open) return;
      try {
        const { data } = await client.session.get({ path: { id: sessionID } });
        if (!data || data.parentID) return; // a sub-agent's
        open = sessionID;
        const about = { session_id: sessionID, cwd: directory, client: "opencode" };
        void hook({ hook_event_name: "SessionStart", source: "startup", ...about }); // nobody waits for it
      } catch {} // only the search does not know which session is open
    },

    "experimental.session.compacting": async ({ sessionID }: any) => {
      try {
        await drop(sessionID);
        const transcript = await transcriptOf(client, sessionID, directory);
        compacting.set(sessionID, transcript);
        await transcript.tell("PreCompact");
        transcript.reminder = transcript.tell("SessionStart", { source: "compact" }); // while the model writes
      } catch {} // opencode compacts as without us
    },

    "experimental.text.complete": async ({ sessionID, messageID }: any, output: any) => {
      const transcript = compacting.get(sessionID);
      if (!transcript) return;
      try {
        const { data } = await client.session.message({ path: { id: sessionID, messageID } });
        const summary = output.text;
        const told = data?.info?.summary ? await transcript.reminder : {};
        const text = told.hookSpecificOutput?.additionalContext;
        if (text) output.text = `${summary}\n\n${text}`;
        if (data?.info?.summary) await transcript.tell("PostCompact", { compact_summary: summary });
      } catch {} // the summary stays as it is
      await drop(sessionID);
    },
  };
};
