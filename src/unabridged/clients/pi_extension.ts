// made by `unabridged install` (`unabridged uninstall pi` takes it away): before pi compacts, the session is archived;
// afterwards the model is told what a summary loses. Whatever fails here, pi goes on as without it.
import { spawn } from "node:child_process";

const PROGRAM = "__PROGRAM__";
const LONGEST = 60_000; // milliseconds

function ask(input: object): Promise<any> {
  return new Promise((resolve) => {
    let out = "";
    const child = spawn(PROGRAM, ["hook"], { stdio: ["pipe", "pipe", "ignore"], timeout: LONGEST });
    child.on("error", () => resolve({})); // the program is gone
    child.on("close", () => {
      try {
        resolve(JSON.parse(out));
      } catch {
        resolve({});
      }
    });
    child.stdout.on("data", (data) => (out += data));
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(input));
  });
}

function about(ctx: any, event: string, more: object): object {
  return {
    hook_event_name: event,
    client: "pi",
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile() ?? null,
    cwd: ctx.cwd,
    ...more,
  };
}

export default function (pi: any) {
  pi.on("session_before_compact", async (event: any, ctx: any) => {
    await ask(about(ctx, "PreCompact", { trigger: event.reason === "manual" ? "manual" : "auto" }));
  });

  pi.on("session_compact", async (_event: any, ctx: any) => {
    const answer = await ask(about(ctx, "SessionStart", { source: "compact" }));
    const text = answer?.hookSpecificOutput?.additionalContext;
    if (text) {
      pi.sendMessage({ customType: "unabridged", content: text, display: false }, { triggerTurn: false });
    }
  });
}
