import { render } from 'preact'
import { App } from './app.tsx'
import { Controller } from './controller.ts'

/** `#/groups/NAME` is the page of one election. A token in the address is taken out of it at once. */
function placeOf(hash: string): { readonly shown: string | undefined; readonly token: string | undefined } {
  const [, token] = /^#token=([\w.-]+)$/.exec(hash) ?? []
  const [, name] = /^#\/groups\/(.+)$/.exec(hash) ?? []
  try {
    return { shown: name === undefined ? undefined : decodeURIComponent(name), token }
  } catch {
    return { shown: undefined, token }
  }
}

const root = document.getElementById('app')
if (root) {
  let isDue = false
  // Whatever comes within a frame is drawn once, and is seen no later for it.
  const draw = () => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      render(<App controller={controller} />, root)
    })
  }
  const controller = new Controller(draw)
  const { shown, token } = placeOf(location.hash)
  if (token !== undefined) history.replaceState(null, '', location.pathname + location.search)
  controller.show(shown)
  window.addEventListener('hashchange', () => {
    controller.show(placeOf(location.hash).shown)
    window.scrollTo(0, 0)
  })
  root.replaceChildren()
  controller.start(token)
  draw()
}
