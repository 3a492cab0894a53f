import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { freePort } from '../servers/free-port.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'
import { exampleFile, newRecipeFolder, waitOptions, documentBlock, slowTest } from './recipe-folder.ts'

const heading = 'An nginx upstream that follows the leader'
const address = '10.0.0.17:3000'

const server = `#!${process.execPath}
const { createServer } = require('node:http')
createServer((request, response) => response.end(process.env.TENURE_IDENTITY)).listen(process.argv[2], '127.0.0.1')
`

describeWithPrograms([programs.nginx], 'an nginx upstream that follows the leader', () => {
  /** Prepares machines, one of which leads, and an nginx in its own folder that is not started yet. */
  const prepare = async () => {
    const service = await serve()
    onTestFinished(() => service.stop())
    const place = newRecipeFolder({ TENURE_STORE: service.url, TENURE_TTL: '4s' })
    place.put('server', server)
    const nginx = join(place.folder, 'nginx')
    mkdirSync(nginx)
    const port = await freePort()
    /** The server of the example, in an nginx that uses no files of this machine. */
    const configure = (conf: string) => {
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((name) => `${name}_temp_path ${nginx}/${name};`)
        .join(' ')
      const text = conf.replace('listen 8080', `listen 127.0.0.1:${port}`)
      expect(text).not.toBe(conf)
      writeFileSync(join(nginx, 'my-app.conf'), text)
      const main = `daemon off; worker_processes 1; pid ${nginx}/pid; error_log ${nginx}/error.log;
        events {} http { access_log off; ${temporary} include my-app.conf; }`
      writeFileSync(join(nginx, 'nginx.conf'), main)
    }
    const own = `${pathOf(programs.nginx)} -p ${nginx} -c nginx.conf -e ${nginx}/error.log`
    const startNginx = async () => {
      const running = place.machine(`exec ${own}`)
      await vi.waitUntil(() => existsSync(join(nginx, 'pid')) && readFileSync(join(nginx, 'pid'), 'utf8'), waitOptions)
      return running
    }
    const machine = async () => {
      const name = `127.0.0.1:${await freePort()}`
      const command = documentBlock(heading, 'sh')
        .replace(address, name)
        .replace(/3000$/, name.split(':')[1] ?? '')
      expect(command).not.toContain('3000')
      return { name, ...place.machine(`exec ${command}`) }
    }
    /** Starts the follower as the document does. */
    const follow = () => {
      copyFileSync(exampleFile('nginx-follows-leader/follow-leader.mjs'), join(place.folder, 'follow-leader.mjs'))
      const command = documentBlock(heading, 'sh', 1)
        .replace('/etc/nginx/leader.conf', join(nginx, 'leader.conf'))
        .replace('nginx -s reload', `${own} -s reload`)
      expect(command).not.toContain('/etc/')
      return place.machine(command)
    }
    const answers = (text: string) =>
      vi.waitUntil(async () => {
        const answer = await fetch(`http://127.0.0.1:${port}`, { headers: { connection: 'close' } }).catch(
          () => undefined,
        )
        return (answer?.ok ? await answer.text() : String(answer?.status)) === text
      }, waitOptions)
    return { ...place, service, nginx, configure, startNginx, machine, follow, answers }
  }
  const conf = readFileSync(exampleFile('nginx-follows-leader/my-app.conf'), 'utf8')

  test('nginx-follows-leader: requests go to the leader and are refused while there is none', slowTest, async () => {
    const { nginx, configure, startNginx, machine, follow, answers } = await prepare()
    configure(conf)
    writeFileSync(join(nginx, 'leader.conf'), 'upstream my_app { server 127.0.0.1:1 down; }\n')
    await startNginx()
    await answers('502')
    const follower = follow()
    await follower.says('nobody leads')
    const first = await machine()
    await answers(first.name)
    const second = await machine()
    await second.says(`${first.name} leads "my-app"`)
    first.child.kill('SIGTERM')
    await answers(second.name)
    second.child.kill('SIGKILL')
    await follower.says(`nginx sends to ${second.name}\nnobody leads`)
    await answers('502')
    const third = await machine()
    await answers(third.name)
    expect(follower.child.exitCode).toBe(null)
  })

  test(
    'nginx-follows-leader: an identity that is not an address does not get into the configuration',
    slowTest,
    async () => {
      const { nginx, service, configure, startNginx, follow, answers } = await prepare()
      configure(conf)
      writeFileSync(join(nginx, 'leader.conf'), 'upstream my_app { server 127.0.0.1:1 down; }\n')
      await startNginx()
      const evil = '127.0.0.1:1; } server { listen 81; } upstream x { server 127.0.0.1:1'
      const body = JSON.stringify({ node_id: evil, lease_ttl_ms: 60_000 })
      const headers = { 'content-type': 'application/json' }
      const campaign = await fetch(`${service.url}/v1/groups/my-app/campaign`, { method: 'POST', headers, body })
      expect(await campaign.json()).toMatchObject({ is_leader: true })
      await follow().says('leads, but is not an address.')
      await answers('502')
      expect(readFileSync(join(nginx, 'leader.conf'), 'utf8')).toBe('upstream my_app { server 127.0.0.1:1 down; }\n')
    },
  )

  test('nginx-follows-leader: a failed reload of nginx and an ended watch are reported', slowTest, async () => {
    const { folder, machine: shell } = newRecipeFolder({})
    const script = exampleFile('nginx-follows-leader/follow-leader.mjs')
    const failing = shell(`echo '{"leader":null}' | node ${script} ${folder}/leader.conf false`)
    expect(await failing.ended).not.toBe(0)
    expect(failing.output.error).toBe('false failed, so nginx keeps its old configuration.\n')
    const ended = shell(`echo '{"leader":null}' | node ${script} ${folder}/leader.conf true`)
    expect(await ended.ended).not.toBe(0)
    expect(ended.output.error).toBe('nobody leads\ntenure watch has ended.\n')
  })

  test('nginx-follows-leader: an upstream that lists all machines also finds the leader', slowTest, async () => {
    const { configure, startNginx, machine, answers } = await prepare()
    const [first, second] = [await machine(), await machine()]
    const listed = documentBlock(heading, 'nginx').replace(address, first.name).replace('10.0.0.18:3000', second.name)
    expect(listed).not.toContain('10.0.0')
    configure(conf.replace('include leader.conf;', listed))
    await startNginx()
    const leader = await vi.waitUntil(
      () => [first, second].find(({ output }) => output.error.includes('leads "my-app" in term 1\n')),
      waitOptions,
    )
    await answers(leader.name)
    leader.child.kill('SIGTERM')
    await answers(leader === first ? second.name : first.name)
  })
})
