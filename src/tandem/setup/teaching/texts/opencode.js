// Tandem: a session that starts hears which reviews wait; the news of those that it submitted is its next prompt.
import { spawn } from "node:child_process"

const [program, ...words] = {command}

const said = (hook, cwd, session_id) =>
  new Promise((resolve) => {
    let told = ""
    const run = spawn(program, [...words, hook, "--client", "opencode"], { cwd, stdio: ["pipe", "pipe", "ignore"], timeout: 10000 })
    run.on("error", () => resolve(""))
    run.stdin.on("error", () => {})
    run.stdout.on("data", (part) => (told += part))
    run.on("close", () => resolve(told))
    run.stdin.end(JSON.stringify({ cwd, session_id }))
  })

export const Tandem = async ({ client, directory }) => {
  const goOn = async (id) => {
    try {
      const { parentID, agent, model } = (await client.session.get({ path: { id } })).data
      // The session of a sub-agent ends with its task.
      const news = parentID ? "" : await said("turn", directory, id)
      if (!news) return
      const chosen = model && { providerID: model.providerID, modelID: model.id }
      const parts = [{ type: "text", text: JSON.parse(news).reason }]
      await client.session.promptAsync({ path: { id }, body: { agent, model: chosen, parts } })
    } catch {
      // A turn must end whatever fails here.
    }
  }
  const started = new Map()
  const start = async (id) => {
    try {
      if ((await client.session.get({ path: { id } })).data.parentID) return ""
      return JSON.parse(await said("session", directory, id)).hookSpecificOutput.additionalContext
    } catch {
      return ""
    }
  }
  return {
    // Called before each request to the model, which takes the same words each time.
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (!sessionID) return
      if (!started.has(sessionID)) started.set(sessionID, start(sessionID))
      const words = await started.get(sessionID)
      if (words) system.push(words)
    },
    // OpenCode waits for this one, so that a headless run, which ends with the turn, goes on, too.
    "experimental.text.complete": ({ sessionID }) => goOn(sessionID),
    event: async ({ event }) => {
      if (event.type === "session.idle") await goOn(event.properties.sessionID)
    },
  }
}
