import { describe, expect, test } from 'vitest'
import { invalidOption, isTenureError, optionMessage, TenureError } from '../../src/common/errors.ts'
import { openStore } from '../../src/stores/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { errorOf } from '../../src/stores/service/answer-error.ts'
import { resolveTimings } from '../../src/engine/timings.ts'

function thrownBy(act: () => unknown): TenureError {
  try {
    act()
  } catch (error) {
    if (isTenureError(error)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('an invalid option', () => {
  test('an option error has its name, value, and rule as data, and its message contains them', () => {
    const error = thrownBy(() => resolveTimings({ leaseDurationMs: 50 }))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', option: 'leaseDurationMs', value: 50, least: 100 })
    expect(error.message).toBe(`Option "leaseDurationMs" is 50, but ${error.rule}.`)
    expect(optionMessage('--ttl', error)).toBe(`--ttl is 50, but ${error.rule}.`)
  })

  test('an option error shows no password, neither in its message nor in its data', () => {
    const url = 'redis://user:secret@host'
    const error = invalidOption('client', url, 'it must be a client')
    expect(JSON.stringify([Object.entries(error), error.message])).not.toContain('secret')
    expect(error).toMatchObject({ option: 'client', rule: 'it must be a client' })
  })

  test('an unknown option is reported with the name that was probably meant', () => {
    const error = thrownBy(() => Reflect.apply(memoryStore, undefined, [{ clok: undefined, clcok: 1 }]))
    expect(error).toMatchObject({ option: 'clcok', advice: 'Did you mean "clock"?' })
  })

  test('the rule follows the option name in the message of an option error without a value', async () => {
    const error = await openStore('postgres://host/database?tabel=x').catch((reason: unknown) => reason)
    const rule = 'has a parameter "tabel", which is not supported'
    expect(error).toMatchObject({ option: 'store', rule, advice: 'Did you mean "table"?' })
    expect(String(error)).toBe(`TypeError: Option "store" ${rule}. Did you mean "table"?`)
  })
})

test('an error has no fields for details that were not given', () => {
  const error = new TenureError('TIMEOUT', 'The store has not answered.', { retryable: true })
  expect(Object.keys(error).toSorted()).toEqual(['code', 'name', 'retryable'])
})

describe('an error response from the service', () => {
  const answer = (status: number, body: object) =>
    errorOf('The service', { status, headers: { 'content-type': 'application/json' }, text: JSON.stringify(body) })

  test.each([
    [401, { error: 'UNAUTHORIZED', message: 'No.' }, { code: 'UNAUTHORIZED', option: 'token' }],
    [403, { error: 'UNAUTHORIZED', message: 'No.', field: 'node_id' }, { code: 'UNAUTHORIZED', option: 'identity' }],
    [404, { error: 'NOT_FOUND', message: 'No.' }, { code: 'NOT_FOUND', option: 'election' }],
  ])('the error for the response %i %o names the option that caused it', (status, body, expected) => {
    expect(answer(status, body)).toMatchObject(expected)
  })

  test('the error for a 403 response that names no field has no option', () => {
    expect(answer(403, { error: 'UNAUTHORIZED', message: 'No.' }).option).toBeUndefined()
  })
})

test('an error has no field for a detail that is undefined', () => {
  const error = new TenureError('BUSY', 'Later.', { option: undefined, advice: 'Wait.', retryable: undefined })
  expect(Object.keys(error).toSorted()).toEqual(['advice', 'code', 'name', 'retryable'])
})
