import { pbkdf2 } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ProofThread, type Proof } from '../../src/storage/proof-thread.ts'

function scene() {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-proof-'))
  const path = join(folder, 'lock')
  writeFileSync(path, 'ours'.padEnd(200))
  const file = openSync(path, 'r+')
  const thread = new ProofThread()
  onTestFinished(async () => {
    await thread.stop()
    closeSync(file)
    rmSync(folder, { recursive: true })
  })
  const proof: Proof = {
    file,
    sign: { at: 96, text: 'alive' },
    mark: { at: 0, text: 'ours' },
    places: [{ path, file }],
  }
  return { thread, proof, path, folder }
}

test('a proof of ownership does not wait for other work of the process', async () => {
  const { thread, proof } = scene()
  await thread.prove(proof)
  let isDone = false
  // As many tasks as the pool has threads, and more that wait for them.
  const others = Array.from(
    { length: 32 },
    () => new Promise((resolve) => pbkdf2('secret', 'salt', 20_000, 64, 'sha512', resolve)),
  )
  void Promise.all(others).then(() => (isDone = true))
  expect(await thread.prove(proof)).toEqual({ result: 'owned' })
  expect(isDone).toBe(false)
  await Promise.all(others)
})

test('a proof of ownership reports that another process has signed the lock file', async () => {
  const { thread, proof } = scene()
  const theirs = { ...proof, mark: { at: 0, text: 'mine' } }
  expect(await thread.prove(theirs)).toEqual({ result: 'taken over' })
})

test('a proof reports that a file was replaced or is missing', async () => {
  const { thread, proof, path, folder } = scene()
  renameSync(path, join(folder, 'elsewhere'))
  expect(await thread.prove(proof)).toEqual({ result: 'gone', path })
  writeFileSync(path, 'ours')
  expect(await thread.prove(proof)).toEqual({ result: 'gone', path })
})

test('a proof reports which call failed', async () => {
  const { thread, proof } = scene()
  expect(await thread.prove({ ...proof, file: 9_999 })).toMatchObject({ result: 'failed', code: 'EBADF' })
})

test('a proof thread that has ended is started again for the next proof', async () => {
  const { thread, proof } = scene()
  await thread.prove(proof)
  await thread.stop()
  expect(await thread.prove(proof)).toEqual({ result: 'owned' })
})
