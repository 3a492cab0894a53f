import { pino } from 'pino'
import { fakeClock } from '@tenure/testing'
import { expect, test } from 'vitest'
import { makeCertificate } from '../../../tenure/test/kubernetes/certificate.ts'
import { warnOfExpiry } from '../../src/auth/tls.ts'

const dayMs = 86_400_000

test('a certificate that expires within 30 days is reported every day until it is replaced', async () => {
  const clock = fakeClock()
  const lines: string[] = []
  const logger = pino({}, { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) })
  let tls = makeCertificate({ endsMs: clock.wallMs() + 31 * dayMs })
  const { stop } = warnOfExpiry(logger, clock, () => tls)
  expect(lines).toEqual([])
  await clock.advance(3 * dayMs)
  const soon = "the service's certificate expires soon: clients reject an expired certificate"
  expect(lines).toEqual([soon, soon, soon])
  await clock.advance(29 * dayMs)
  expect(lines.at(-1)).toBe("the service's certificate has expired: clients reject an expired certificate")
  const { length } = lines
  tls = makeCertificate({ endsMs: clock.wallMs() + 90 * dayMs })
  await clock.advance(2 * dayMs)
  expect(lines).toHaveLength(length)
  stop()
})
