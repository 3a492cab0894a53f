/** Packages that examples use, and tests install in a folder of their own. */
declare module '@nestjs/common'
declare module '@nestjs/core'
declare module '@nestjs/schedule'
declare module 'bullmq'
declare module 'node-cron'
