import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { pathOf } from '../servers/find.ts'
import { programs } from '../servers/programs.ts'

/** A browser for a whole suite. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: pathOf(programs.chromium),
    args: ['--no-sandbox', '--disable-background-networking'],
  })
}

export interface Opened {
  readonly page: Page
  /** What went wrong in it: errors of the script, and what the policy has refused. */
  readonly faults: string[]
  /** Origins that it has asked for anything. */
  readonly origins: Set<string>
}

/** Opens a page of its own, with nothing from any page before. */
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
    // A browser notes every answer that is a refusal, and every connection that breaks off.
    if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) faults.push(message.text())
  })
  page.on('request', (request) => origins.add(new URL(request.url()).origin))
  await page.goto(url)
  return { page, faults, origins }
}

/** Campaigns and the like, of a service without authentication. */
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
    expect(answer.ok, `${path} is answered with ${answer.status}`).toBe(true)
    return (await answer.json()) as Record<string, unknown>
  }
}
