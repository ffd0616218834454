// Tandem: what became of the reviews that a session submitted is its next prompt.
import { spawn } from "node:child_process"

const [program, ...words] = {command}

const news = (cwd, session_id) =>
  new Promise((resolve) => {
    let said = ""
    const hook = spawn(program, words, { cwd, stdio: ["pipe", "pipe", "ignore"], timeout: 10000 })
    hook.on("error", () => resolve(""))
    hook.stdin.on("error", () => {})
    hook.stdout.on("data", (part) => (said += part))
    hook.on("close", () => resolve(said))
    hook.stdin.end(JSON.stringify({ cwd, session_id }))
  })

export const Tandem = async ({ client, directory }) => {
  const goOn = async (id) => {
    try {
      const { parentID, agent, model } = (await client.session.get({ path: { id } })).data
      // The session of a sub-agent ends with its task.
      const said = parentID ? "" : await news(directory, id)
      if (!said) return
      const chosen = model && { providerID: model.providerID, modelID: model.id }
      const parts = [{ type: "text", text: JSON.parse(said).reason }]
      await client.session.promptAsync({ path: { id }, body: { agent, model: chosen, parts } })
    } catch {
      // A turn must end whatever fails here.
    }
  }
  return {
    // OpenCode waits for this one, so that a headless run, which ends with the turn, goes on, too.
    "experimental.text.complete": ({ sessionID }) => goOn(sessionID),
    event: async ({ event }) => {
      if (event.type === "session.idle") await goOn(event.properties.sessionID)
    },
  }
}
