import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'

/** Launches a browser for a whole suite. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: pathOf(programs.chromium),
    args: ['--no-sandbox', '--disable-background-networking'],
  })
}

export interface Opened {
  readonly page: Page
  /** The errors of the page: script errors, and violations of the content security policy. */
  readonly faults: string[]
  /** The origins that the page has requested. */
  readonly origins: Set<string>
}

/** Opens a new page in a fresh context. */
export async function open(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  const faults: string[] = []
  const origins = new Set<string>()
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    // Browsers log every refused request and every broken connection as an error.
    if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) faults.push(message.text())
  })
  page.on('request', (request) => origins.add(new URL(request.url()).origin))
  await page.goto(url)
  return { page, faults, origins }
}

/** Sends campaigns and other requests to a service. */
export function client(url: string, token?: string) {
  return async (path: string, body?: object, method = body ? 'POST' : 'GET') => {
    const answer = await fetch(`${url}/v1/${path}`, {
      method,
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    expect(answer.ok, `${path} returned ${answer.status}`).toBe(true)
    return (await answer.json()) as Record<string, unknown>
  }
}
