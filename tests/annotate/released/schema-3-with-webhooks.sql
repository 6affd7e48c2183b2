BEGIN TRANSACTION;
CREATE TABLE about (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "about" VALUES('format','deixis-annotate');
INSERT INTO "about" VALUES('version','3');
CREATE TABLE api_tokens (
	id VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	name TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE assignments (
	id VARCHAR NOT NULL, 
	hit VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	items INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	begun_at FLOAT NOT NULL, 
	submit_to TEXT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE barred (
	question INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	PRIMARY KEY (question, worker), 
	FOREIGN KEY(question) REFERENCES questions (number) ON DELETE CASCADE
);
INSERT INTO "barred" VALUES(7,'wdc44c7129ffb');
CREATE TABLE checks (
	number INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	known INTEGER, 
	event INTEGER, 
	"right" BOOLEAN, 
	PRIMARY KEY (number), 
	FOREIGN KEY(worker) REFERENCES workers (id), 
	UNIQUE (event)
);
INSERT INTO "checks" VALUES(1,'w4dc64a8f9247','drawing','work',NULL,4,1);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	"key" VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	task VARCHAR, 
	seconds FLOAT NOT NULL, 
	known INTEGER, 
	body JSON NOT NULL, 
	UNIQUE ("key"), 
	FOREIGN KEY(photo) REFERENCES photos (id), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "events" VALUES(1,'5WMTsg8CvBOAcj1k','dog0','w0622f665c4a5',1000.0,'judged','link',0.0,NULL,'{"task": "link", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(2,'tC3fLW4D86OX5YIR','dog0','w4dc64a8f9247',1000.0,'judged','verify',0.0,NULL,'{"task": "verify", "subject": "0:0-5 1:0-7", "seconds": 0.0, "answer": "yes"}');
INSERT INTO "events" VALUES(3,'m7QeUXebVVeAkKJ8','dog0','w0622f665c4a5',1000.0,'judged','requirement',0.0,NULL,'{"task": "requirement", "subject": "1:0-7", "seconds": 0.0, "answer": "box"}');
INSERT INTO "events" VALUES(4,'Zxe98vGUBVccsAqw','dog0','w4dc64a8f9247',1000.0,'judged','drawing',0.0,NULL,'{"task": "drawing", "subject": "1:0-7", "seconds": 0.0, "answer": "drawn", "box": [10.0, 10.0, 60.0, 50.0]}');
INSERT INTO "events" VALUES(5,'YBPSJlWiVJDywVqL','dog0','w0622f665c4a5',1000.0,'judged','quality',0.0,NULL,'{"task": "quality", "subject": "1:0-7 ?b4", "seconds": 0.0, "answer": "good"}');
INSERT INTO "events" VALUES(6,'GIoSqCqci0nfue-Y','dog0','wdc44c7129ffb',1000.0,'judged','coverage',0.0,NULL,'{"task": "coverage", "subject": "1:0-7 b4", "seconds": 0.0, "answer": "all"}');
CREATE TABLE known (
	number INTEGER NOT NULL, 
	photo VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	answer VARCHAR NOT NULL, 
	boxes JSON NOT NULL, 
	reviewed BOOLEAN NOT NULL, 
	lesson JSON, 
	PRIMARY KEY (number), 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
CREATE TABLE leases (
	token VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	question INTEGER, 
	known INTEGER, 
	purpose VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	until FLOAT NOT NULL, 
	state VARCHAR NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "leases" VALUES('5WMTsg8CvBOAcj1k','w0622f665c4a5',1,NULL,'work','link','dog0','0:0-5 1:0-7','{"task": "link", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('tC3fLW4D86OX5YIR','w4dc64a8f9247',3,NULL,'work','verify','dog0','0:0-5 1:0-7','{"task": "verify", "photo": "dog0", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('m7QeUXebVVeAkKJ8','w0622f665c4a5',4,NULL,'work','requirement','dog0','1:0-7','{"task": "requirement", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('Zxe98vGUBVccsAqw','w4dc64a8f9247',5,NULL,'work','drawing','dog0','1:0-7','{"task": "drawing", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": null}',1600.0,'answered');
INSERT INTO "leases" VALUES('YBPSJlWiVJDywVqL','w0622f665c4a5',6,NULL,'work','quality','dog0','1:0-7 ?b4','{"task": "quality", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [], "new_box": [10.0, 10.0, 60.0, 50.0]}',1600.0,'answered');
INSERT INTO "leases" VALUES('GIoSqCqci0nfue-Y','wdc44c7129ffb',7,NULL,'work','coverage','dog0','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',1600.0,'answered');
CREATE TABLE messages (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	webhook VARCHAR NOT NULL, 
	body JSON NOT NULL, 
	attempts INTEGER NOT NULL, 
	due_at FLOAT NOT NULL, 
	error TEXT, 
	failed BOOLEAN NOT NULL, 
	FOREIGN KEY(webhook) REFERENCES webhooks (id) ON DELETE CASCADE
);
CREATE TABLE photos (
	id VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	known BOOLEAN NOT NULL, 
	material JSON NOT NULL, 
	last_event INTEGER NOT NULL, 
	chains INTEGER NOT NULL, 
	waiting INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (place)
);
INSERT INTO "photos" VALUES('dog0',1,0,'{"photo": "dog0", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',6,1,0,0);
INSERT INTO "photos" VALUES('dog1',2,0,'{"photo": "dog1", "captions": ["A dog runs.", "The dog jumps."], "width": 100, "height": 80, "file": null, "sha256": null, "splits": [], "mentions": [["0:0-5", ["animals"]], ["1:0-7", ["animals"]]]}',0,1,0,0);
CREATE TABLE questions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	photo VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	task VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	asked JSON NOT NULL, 
	leased_until FLOAT NOT NULL, 
	UNIQUE (photo, task, subject), 
	FOREIGN KEY(photo) REFERENCES photos (id)
);
INSERT INTO "questions" VALUES(2,'dog1',2,'link','0:0-5 1:0-7','{"task": "link", "photo": "dog1", "mentions": ["0:0-5", "1:0-7"], "boxes": [], "new_box": null}',0.0);
INSERT INTO "questions" VALUES(7,'dog0',1,'coverage','1:0-7 b4','{"task": "coverage", "photo": "dog0", "mentions": ["1:0-7"], "boxes": [[10.0, 10.0, 60.0, 50.0]], "new_box": null}',0.0);
CREATE TABLE remarks (
	event INTEGER NOT NULL, 
	worker VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	seen BOOLEAN NOT NULL, 
	PRIMARY KEY (event), 
	FOREIGN KEY(event) REFERENCES events (number)
);
CREATE TABLE requeue (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	photo VARCHAR NOT NULL, 
	PRIMARY KEY (worker, task, photo)
);
CREATE TABLE sessions (
	hash VARCHAR NOT NULL, 
	worker VARCHAR NOT NULL, 
	until FLOAT NOT NULL, 
	assignment VARCHAR, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
CREATE TABLE standings (
	worker VARCHAR NOT NULL, 
	task VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	"after" INTEGER NOT NULL, 
	PRIMARY KEY (worker, task), 
	FOREIGN KEY(worker) REFERENCES workers (id)
);
INSERT INTO "standings" VALUES('w0622f665c4a5','link','trusted',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','verify','trusted',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','requirement','trusted',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','drawing','first items',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','quality','trusted',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','coverage','trusted',0);
INSERT INTO "standings" VALUES('w0622f665c4a5','pair','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','link','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','verify','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','requirement','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','drawing','first items',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','quality','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','coverage','trusted',0);
INSERT INTO "standings" VALUES('w4dc64a8f9247','pair','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','link','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','verify','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','requirement','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','drawing','first items',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','quality','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','coverage','trusted',0);
INSERT INTO "standings" VALUES('wdc44c7129ffb','pair','trusted',0);
CREATE TABLE webhooks (
	id VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	secret VARCHAR NOT NULL, 
	kinds JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE workers (
	id VARCHAR NOT NULL, 
	name TEXT, 
	invitation VARCHAR, 
	password TEXT, 
	role VARCHAR NOT NULL, 
	invited_at FLOAT NOT NULL, 
	joined_at FLOAT, 
	vouched BOOLEAN NOT NULL, 
	history_items INTEGER NOT NULL, 
	history_accuracy FLOAT NOT NULL, 
	forgotten BOOLEAN NOT NULL, 
	suspended_at FLOAT, 
	subject VARCHAR, 
	PRIMARY KEY (id), 
	UNIQUE (invitation)
);
INSERT INTO "workers" VALUES('w0622f665c4a5','Ann','457edd91b91e4f3fccef8e6d5927d2b37e3f0ea990057332cdc1733405fe2308',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL);
INSERT INTO "workers" VALUES('w4dc64a8f9247','Bob','5cc8ab2346a1b7b22ddec2739affd9eca9c1fcc6f8374f112c8fcd483247cb39',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL);
INSERT INTO "workers" VALUES('wdc44c7129ffb','Cy','4d843ee988d828e24899e7f839ec7a50ab47f9a90a7ff7626338be12206b6676',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL);
INSERT INTO "workers" VALUES('w57557b71daf2','Dee','922f87e606ec1d815a17210a629fa1c8e9b9a6b9d06bb518f5717f6ba6298d37',NULL,'worker',1000.0,NULL,1,0,0.0,0,NULL,NULL);
CREATE INDEX events_of_worker ON events (worker, task);
CREATE INDEX events_of_photo ON events (photo, number);
CREATE INDEX questions_in_order ON questions (place, number);
CREATE INDEX known_of_task ON known (task);
CREATE INDEX leases_of_worker ON leases (worker, state);
CREATE UNIQUE INDEX one_holder ON leases (question) WHERE state = 'open';
CREATE INDEX checks_of_worker ON checks (worker, task);
CREATE INDEX sessions_of_worker ON sessions (worker);
CREATE INDEX tokens_of_worker ON api_tokens (worker);
CREATE INDEX messages_due ON messages (webhook, failed, due_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('questions',7);
INSERT INTO "sqlite_sequence" VALUES('events',6);
COMMIT;
