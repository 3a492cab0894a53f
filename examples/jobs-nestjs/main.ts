// NestJS: @Cron starts the job in every process, and one of them runs it. A shutdown waits for a run in progress.
import { Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Cron, ScheduleModule } from '@nestjs/schedule'
import { createJobs } from 'tenure/jobs'
import { fileStore } from 'tenure/stores/file'

@Injectable()
class ReportService {
  readonly jobs = createJobs({ store: fileStore({ directory: './leases' }) })

  @Cron('*/2 * * * * *')
  async report() {
    const outcome = await this.jobs.atMostOncePer({ milliseconds: 1_500 }, 'report', async () => {
      console.log(`${process.pid}: reports`)
    })
    console.log(`${process.pid}: ${outcome}`)
  }

  async onApplicationShutdown() {
    await this.jobs.close()
  }
}

@Module({ imports: [ScheduleModule.forRoot()], providers: [ReportService] })
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] })
app.enableShutdownHooks()
