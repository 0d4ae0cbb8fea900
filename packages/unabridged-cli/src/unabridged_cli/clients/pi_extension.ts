// made by `unabridged install` (`unabridged uninstall pi` takes it away). Before pi compacts, the session is archived, and
// our summary given in the place of pi's; where pi makes its own, the model is told afterwards what that loses. It can
// search and read the rest. Whatever fails here, pi goes on as without it.
import { spawn } from "node:child_process";

const PROGRAM = "__PROGRAM__";
const LONGEST = 60_000; // milliseconds

/** What the program prints, or what is wrong where it is gone, fails, or is interrupted. */
function run(args: string[], input = "", signal?: AbortSignal): Promise<{ out: string; wrong: string }> {
  return new Promise((resolve) => {
    let out = "";
    let wrong = "";
    const env = { ...process.env, COLUMNS: "500", NO_COLOR: "1" };
    // Not spawn's own timeout: where the program is gone, that would keep pi from ending until it is over.
    const over = AbortSignal.any([AbortSignal.timeout(LONGEST), ...(signal ? [signal] : [])]);
    const child = spawn(PROGRAM, args, { signal: over, env });
    child.on("error", (error) => resolve({ out: "", wrong: error.message }));
    child.on("close", (code) => resolve({ out: code === 0 ? out : "", wrong }));
    child.stdout.setEncoding("utf8").on("data", (data: string) => (out += data));
    child.stderr.setEncoding("utf8").on("data", (data: string) => (wrong += data));
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

/** What `unabridged hook` answers to an event, as it does to Claude Code and Codex. */
async function hook(event: string, ctx: any, more: object, signal?: AbortSignal): Promise<any> {
  const sessions = ctx.sessionManager;
  const file = sessions.getSessionFile();
  if (!file) return {}; // a session that pi keeps nowhere
  const about = { session_id: sessions.getSessionId(), transcript_path: file, cwd: ctx.cwd, client: "pi" };
  try {
    const { out } = await run(["hook"], JSON.stringify({ hook_event_name: event, ...about, ...more }), signal);
    return JSON.parse(out) ?? {};
  } catch {
    return {};
  }
}

function tool(command: string, argument: string, description: string, means: string) {
  return {
    name: `${command}_history`,
    label: `${command} history`,
    description,
    parameters: {
      type: "object",
      properties: { [argument]: { type: "string", description: means } },
      required: [argument],
    },
    async execute(_id: string, params: any, signal: AbortSignal | undefined, _update: unknown, ctx: any) {
      const thread = `pi:${ctx.sessionManager.getSessionId()}`;
      const { out, wrong } = await run([command, "--thread", thread, "--", String(params[argument])], "", signal);
      const nothing = "Nothing was found.";
      const text = `${out.trim() || nothing} ${wrong.trim()}`.trim(); // also what is not in the archive
      return { content: [{ type: "text", text }], details: {} };
    },
  };
}

export default function (pi: any) {
  let ours = false; // whether the newest compaction is
  let untold = ""; // what the model is to be told, until it stands in the session
  pi.registerTool(
    tool("search", "query", "Search the whole conversation, also what was compacted away.", "Literal words"),
  );
  pi.registerTool(tool("read", "ref", "Read one message that was compacted away, in full.", "Its number, or a ref"));

  pi.on("session_start", (event: any, ctx: any) => {
    untold = "";
    void hook("SessionStart", ctx, { source: event.reason === "resume" ? "resume" : "startup" }); // nobody waits for it
  });

  // Also a session that is never compacted is archived; the hook only starts a process for that.
  pi.on("session_shutdown", (_event: any, ctx: any) => hook("SessionEnd", ctx, {}));

  pi.on("session_before_compact", async (event: any, ctx: any) => {
    const trigger = event.reason === "manual" ? "manual" : "auto";
    // What a person asks of the summary, only a model can do.
    const name = event.customInstructions ? "PreCompact" : "session_before_compact";
    const summary = (await hook(name, ctx, { trigger }, event.signal)).compaction?.summary;
    ours = Boolean(summary);
    untold = "";
    const { firstKeptEntryId, tokensBefore } = event.preparation;
    return summary ? { compaction: { summary, firstKeptEntryId, tokensBefore } } : undefined;
  });

  pi.on("session_compact", async (_event: any, ctx: any) => {
    if (ours) return; // it says all that already
    const answer = await hook("SessionStart", ctx, { source: "compact" });
    untold = answer.hookSpecificOutput?.additionalContext ?? "";
    if (untold) pi.sendMessage({ customType: "unabridged", content: untold, display: false }, { triggerTurn: false });
  });

  // While the model is at work, pi takes a message in only behind its next step.
  pi.on("context", (event: any) => {
    if (!untold) return undefined;
    const text = untold;
    if (event.messages.some((message: any) => message.customType === "unabridged" && message.content === text)) {
      untold = "";
      return undefined;
    }
    const told = { role: "custom", customType: "unabridged", content: text, display: false, timestamp: Date.now() };
    return { messages: [...event.messages, told] };
  });
}
