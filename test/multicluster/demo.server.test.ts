/** The walkthrough of the multi-cluster demo, as a reader runs it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { expectNothingLeft, pidsIn, temporaryFolder } from '../../packages/cli/test/demo-scene.ts'
import { openTerminal } from '../../packages/cli/test/terminal.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const program = join(import.meta.dirname, '../../scripts/demo-multicluster.js')
const timeout = 150_000

describeWithPrograms(clusterPrograms, 'the demo of clusters', () => {
  test(
    'the multi-cluster demo shows what it starts, injects each fault once, shows the leader move, and leaves nothing behind',
    async () => {
      const folder = temporaryFolder()
      const child = spawn(process.execPath, [program], { env: { ...process.env, TMPDIR: folder } })
      onTestFinished(() => void child.kill('SIGKILL'))
      let text = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      }
      const [code] = await once(child, 'close')
      expect(code, text).toBe(0)

      for (const cluster of ['east', 'west']) {
        expect(text).toContain(`cluster ${cluster}: starting etcd and kube-apiserver ...`)
        expect(text).toContain(`cluster ${cluster}: the MultiClusterLease CRD is installed, 2 controllers run`)
      }
      // The leader should survive the loss of its controller, but may not do so on a busy machine. Another test checks
      // that it does.
      expect(text).toMatch(
        /killed the controller of (\w+\/web-\d), the leader of term \d+\n[^]*\1 (still leads|no longer leads)/,
      )
      const moves =
        /(stopped|killed|cut off the cluster of) (\w+)\/web-\d \(term (\d+)\) -> (\w+)\/web-\d leads term (\d+)/g
      const seen = [...text.matchAll(moves)]
      expect(seen.map(([, harm]) => harm)).toEqual(['stopped', 'killed', 'cut off the cluster of'])
      for (const [line, , , before, , after] of seen) expect(Number(after), line).toBeGreaterThan(Number(before))
      const cut = seen.at(-1)
      expect(cut?.[4], 'the other cluster leads').not.toBe(cut?.[2])
      const terms = [...text.matchAll(/ leads term (\d+)/g)].map(([, term]) => Number(term))
      expect(Math.max(...terms)).toBe(Number(/, terms 1 to (\d+)\./.exec(text)?.[1]))
      expectNothingLeft(folder, pidsIn(text))
    },
    timeout,
  )
})

describeWithPrograms([...clusterPrograms, programs.tmux], 'the demo of clusters in a terminal', () => {
  test(
    'the multi-cluster demo shows the leader, reacts to keys, and restores the terminal on Ctrl-C',
    async () => {
      const folder = temporaryFolder()
      const terminal = openTerminal(`'${process.execPath}' '${program}'; echo "exit code $?"; stty -a; cat`, {
        columns: 80,
        rows: 30,
        env: { TMPDIR: folder },
      })
      const shown = (pattern: RegExp) => terminal.shown(pattern, 60_000)
      await shown(/cluster east: starting etcd and kube-apiserver \.\.\./)
      await shown(/^(east|west)\/web-. +\d+ +LEADER +1 +[█░]+ \d\.\d s$/m)
      // Both clusters show the same leader, and only its own cluster shows the name without a prefix.
      await shown(/^cluster (east|west) +web-. +\1 +1$/m)
      await shown(/^cluster (east|west) +(?!\1)(\w+)\/web-. +\2 +1$/m)
      await shown(/^s stop {2}k kill the leader {2}d kill its controller {2}c cut its cluster off {2}q quit$/m)
      const pids = pidsIn(terminal.screen())
      terminal.press('s')
      await shown(/stopped (\w+\/web-.) \(term 1\) -> \w+\/web-. leads term 2 after \d+ ms/)

      terminal.press('C-c')
      await shown(/, terms 1 to \d+\.[^]*exit code 0[^]*\bicanon\b/)
      expect(terminal.screen()).not.toMatch(/-icanon|-echo\b/)
      expect(terminal.modes()).toBe('101')
      expectNothingLeft(folder, pids)
    },
    timeout,
  )
})
