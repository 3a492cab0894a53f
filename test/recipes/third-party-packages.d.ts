/** Packages that examples use. Tests install them in a separate folder. */
declare module '@nestjs/common'
declare module '@nestjs/core'
declare module '@nestjs/schedule'
declare module 'bullmq'
declare module 'node-cron'
